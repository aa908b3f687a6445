# A service in front of an SQLite file: the API that `database-query` calls. It only reads.
import json, os, sqlite3
from http.server import BaseHTTPRequestHandler, HTTPServer

db = sqlite3.connect("feedback.sqlite")
db.executescript("""
    DROP TABLE IF EXISTS feedback;
    CREATE TABLE feedback (product TEXT, rating INTEGER, comment TEXT);
    INSERT INTO feedback VALUES ('CRM', 2, 'I do not get the "price"'), ('CRM', 4, 'The "price" went up'), ('CRM', 1, 'Too slow');
    PRAGMA query_only = 1;
""")
db.row_factory = sqlite3.Row

class Service(BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(204)
        self.end_headers()

    def do_POST(self):
        asked = json.loads(self.rfile.read(int(self.headers["content-length"])))
        try:
            if self.headers["authorization"] != os.environ["BOSUN_SECRET_FEEDBACK_TOKEN"]:
                status, answer = 401, {"error": "the token is wrong"}
            else:
                rows = db.execute(asked["sql"]).fetchmany(asked.get("limit", 100))
                status, answer = 200, [dict(row) for row in rows]
        except sqlite3.Error as error:
            status, answer = 400, {"error": str(error)}
        self.send_response(status)
        self.send_header("content-type", "application/json")
        self.end_headers()
        self.wfile.write(json.dumps(answer).encode())

HTTPServer(("127.0.0.1", 8090), Service).serve_forever()
