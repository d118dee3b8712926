/* Loses a connection, and prints what the application sees: see ends.py.

   ends SCENARIO host port user password schema */
#include <mysql.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define BIG "with recursive n(i) as (select 1 union all select i + 1 from n where i < 1000) select a.i, repeat('x', 1000) from n a, n b"

static char **args;
static MYSQL *db;

static void ready(const char *connection)
{
	char line[8];
	printf("ready %s\n", connection);
	fflush(stdout);
	if (fgets(line, sizeof line, stdin) == NULL)
		exit(1);
}

/* query opens the connection if there is none, and returns the first row. With wait it waits after that row. */
static const char *query(const char *sql, int wait)
{
	static char value[64];
	unsigned long rows = 0;
	MYSQL_RES *result;
	MYSQL_ROW row;
	if (db == NULL) {
		db = mysql_init(NULL);
		if (!mysql_real_connect(db, args[2], args[4], args[5], args[6], (unsigned)atoi(args[3]), NULL, 0)) {
			snprintf(value, sizeof value, "error %u", mysql_errno(db));
			mysql_close(db);
			db = NULL;
			return value;
		}
	}
	if (mysql_query(db, sql) != 0 || (result = mysql_use_result(db)) == NULL) {
		snprintf(value, sizeof value, "error %u", mysql_errno(db));
		return value;
	}
	while ((row = mysql_fetch_row(result)) != NULL)
		if (++rows == 1) {
			snprintf(value, sizeof value, "%s", row[0]);
			if (wait)
				ready("0");
		}
	if (mysql_errno(db) != 0)
		snprintf(value, sizeof value, "error %u", mysql_errno(db));
	else if (wait)
		snprintf(value, sizeof value, rows == 1000000 ? "the whole result" : "a part of the result as if it were whole");
	mysql_free_result(result);
	return value;
}

int main(int argc, char **argv)
{
	args = argv;
	if (argc != 7)
		return 1;
	if (strcmp(argv[1], "login") == 0) {
		ready("0");
		printf("login: %s\n", query("select 42", 0));
		ready("0");
	} else {
		const char *connection = query("select connection_id()", 0);
		if (strcmp(argv[1], "idle") == 0) {
			ready(connection);
		} else if (strcmp(argv[1], "statement") == 0) {
			printf("runs %s\n", connection);
			fflush(stdout);
			printf("statement: %s\n", query("select sleep(100)", 0));
			ready("0");
		} else {
			printf("result: %s\n", query(BIG, 1));
			ready("0");
		}
	}
	for (int i = 0; i < 3; i++) {
		printf("then: %s\n", query("select 42", 0));
		if (i == 0 && db != NULL) { /* the application connects again */
			mysql_close(db);
			db = NULL;
		}
	}
	return 0;
}
