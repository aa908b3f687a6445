import { defineConfig } from 'vitest/config';

export default defineConfig({
	test: {
		include: ['test/**/*.test.ts'],
		// Machines that test are busy.
		testTimeout: 20_000,
		coverage: {
			include: ['src/**', 'nodes/**', 'credentials/**'],
			exclude: ['**/*.json', '**/*.svg'],
			thresholds: { statements: 80, branches: 80, functions: 80, lines: 80 },
			reporter: ['text-summary'],
		},
	},
});
