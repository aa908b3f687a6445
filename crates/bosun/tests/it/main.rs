mod cli_tools;
