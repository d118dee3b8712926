/* Deletes from a table without permission, between statements that are permitted, and prints what it sees.

   refusal host port user password schema */
#include <mysql.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void report(const char *what, unsigned number, const char *state, const char *message) {
	if (number == 0)
		printf("%s: no error\n", what);
	else
		printf("%s: refused %u %s |%s|\n", what, number, state, message);
}

static void text(MYSQL *c, const char *what, const char *sql) {
	int status = mysql_query(c, sql);
	while (status == 0) {
		MYSQL_RES *rows = mysql_store_result(c);
		if (rows != NULL) {
			MYSQL_ROW row;
			while ((row = mysql_fetch_row(rows)) != NULL)
				for (unsigned i = 0; i < mysql_num_fields(rows); i++)
					printf("[%s]", row[i] ? row[i] : "NULL");
			printf("\n");
			mysql_free_result(rows);
		}
		status = mysql_next_result(c);
	}
	report(what, mysql_errno(c), mysql_sqlstate(c), mysql_error(c));
}

/* direct sends PREPARE and the execution of the last prepared statement at once; n > 1 sends a bulk execution. */
static void execute(MYSQL *c, const char *what, const char *sql, int first, unsigned n, int direct) {
	MYSQL_STMT *s = mysql_stmt_init(c);
	MYSQL_BIND bind[1];
	int values[8];
	unsigned count = 1;
	memset(bind, 0, sizeof bind);
	for (unsigned i = 0; i < n; i++)
		values[i] = first + (int)i;
	bind[0].buffer_type = MYSQL_TYPE_LONG;
	bind[0].buffer = values;
	int failed = 0;
	if (!direct)
		failed = mysql_stmt_prepare(s, sql, strlen(sql));
	if (n > 1)
		mysql_stmt_attr_set(s, STMT_ATTR_ARRAY_SIZE, &n);
	if (!failed && direct) {
		mysql_stmt_attr_set(s, STMT_ATTR_PREBIND_PARAMS, &count);
		failed = mysql_stmt_bind_param(s, bind) || mariadb_stmt_execute_direct(s, sql, strlen(sql));
	} else if (!failed) {
		failed = mysql_stmt_bind_param(s, bind) || mysql_stmt_execute(s);
	}
	report(what, failed ? mysql_stmt_errno(s) : 0, mysql_stmt_sqlstate(s), mysql_stmt_error(s));
	mysql_stmt_close(s);
}

int main(int argc, char **argv) {
	MYSQL *c = mysql_init(NULL);
	if (argc != 6 || !mysql_real_connect(c, argv[1], argv[3], argv[4], argv[5], (unsigned)atoi(argv[2]), NULL, CLIENT_MULTI_STATEMENTS)) {
		fprintf(stderr, "connect: %s\n", mysql_error(c));
		return 1;
	}
	const char *insert = "insert into things (b) values (?)", *remove = "delete from secret where a = ?";
	int mariadb = mariadb_connection(c); /* others know no last prepared statement and no bulk execution */
	for (int direct = 0; direct <= mariadb; direct++) {
		execute(c, "insert", insert, 1, 1, direct);
		execute(c, "prepared", remove, 1, 1, direct);
		text(c, "warnings", "show warnings");
		text(c, "rows", "select row_count()");
		execute(c, "insert", insert, 2, 1, direct);
		if (mariadb) {
			execute(c, "bulk insert", insert, 10, 3, direct);
			execute(c, "bulk", remove, 1, 3, direct);
			execute(c, "bulk insert", insert, 20, 3, direct);
		}
	}
	text(c, "text", "delete from secret");
	text(c, "warnings", "show warnings");
	text(c, "several", "insert into things (b) values (30); delete from secret; insert into things (b) values (31)");
	text(c, "begin", "begin");
	execute(c, "insert", insert, 40, 1, mariadb);
	execute(c, "transaction", remove, 3, 1, mariadb);
	text(c, "rollback", "rollback");
	text(c, "things", "select b from things order by b, a");
	mysql_close(c);
	printf("done\n");
	return 0;
}
