package sqldigest_test

import (
	"context"
	"database/sql"
	"errors"
	"flag"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/go-sql-driver/mysql"

	"github.com/taredb/tare/internal/testmysql"
	"github.com/taredb/tare/mysql/sqldigest"
)

// named are statements in which $ is a name; upper case outside of it are keywords.
var named = []string{
	"SELECT $ FROM b", "SELECT a, $, c FROM b WHERE $ = 1 AND b > $ ORDER BY $", "SELECT a FROM $ WHERE a = 1",
	"SELECT a FROM b JOIN $ ON a = $", "SELECT 1 AS $", "SELECT b.$, $.a FROM b", "INSERT INTO $ VALUES (1)", "INSERT INTO b ($) VALUES (1)",
	"INSERT INTO b (a) VALUES (1) ON DUPLICATE KEY UPDATE $ = 1", "UPDATE $ SET a = 1", "UPDATE b SET $ = 1, a = $ + 1 WHERE $ = 'x'",
	"DELETE FROM $ WHERE $ = 1", "REPLACE INTO $ VALUES (1)", "WITH $ AS (SELECT 1) SELECT * FROM $", "SELECT COUNT($) FROM b GROUP BY $",
	"CREATE TABLE $ (a INT)", "CREATE TABLE b ($ INT, a VARCHAR(10))", "ALTER TABLE $ ADD COLUMN a INT", "ALTER TABLE b ADD COLUMN $ INT",
	"ALTER TABLE b DROP COLUMN $", "DROP TABLE IF EXISTS $", "CREATE INDEX $ ON b (a)", "CREATE INDEX a ON $ (a)", "TRUNCATE TABLE $",
	"SELECT a FROM b WHERE a IN (SELECT $ FROM c)", "LOCK TABLES $ WRITE", "SHOW COLUMNS FROM $", "DESCRIBE $", "SELECT 1 FROM b AS $",
	"SELECT a FROM b FORCE INDEX ($)", "SELECT 1 LIMIT 1 OFFSET 2", "SELECT a FROM b WHERE a LIKE 'x' ESCAPE '!'",
	"SELECT a FROM b FOR UPDATE NOWAIT", "SELECT a FROM b FOR UPDATE SKIP LOCKED", "SELECT a FROM b LOCK IN SHARE MODE", "START TRANSACTION READ ONLY",
	"SELECT NOW() + INTERVAL 1 DAY", "SELECT a FROM b WHERE MATCH (a) AGAINST ('x' IN BOOLEAN MODE)", "SET SESSION autocommit = 1", "SET NAMES utf8mb4",
	"COMMIT WORK", "ROLLBACK TO SAVEPOINT x", "FLUSH STATUS", "SHOW GLOBAL STATUS", "SELECT a FROM b GROUP BY a WITH ROLLUP", "KILL QUERY 1",
	"CREATE TEMPORARY TABLE x (a DATETIME COMMENT 'y')", "SELECT CASE WHEN a THEN 1 ELSE 2 END FROM b", "EXPLAIN SELECT 1",
	"SHOW FULL PROCESSLIST", "SELECT SQL_NO_CACHE a FROM b", "SELECT sleep(0), a.f(1), f(a), concat_ws('a', 'b')",
}

// placed are more statements in which $ is a name, for -shown.all.
var placed = []string{
	"SELECT a $ FROM b", "SELECT a FROM b $", "SELECT $.a FROM b AS $", "SELECT a.$.c FROM a.$", "SELECT a FROM $.$", "SELECT a FROM b ORDER BY $ DESC, a", "SELECT a FROM b GROUP BY a, $",
	"SELECT a FROM b HAVING $ > 1", "SELECT @$", "SET @$ = 1", "SELECT @a := $ FROM b", "CALL $(1)", "CALL $.$(1)", "SELECT a.$(1)", "CREATE VIEW $ AS SELECT 1", "CREATE OR REPLACE VIEW a.$ AS SELECT a FROM b",
	"CREATE VIEW v ($) AS SELECT 1", "DROP VIEW $", "SAVEPOINT $", "ROLLBACK TO $", "RELEASE SAVEPOINT $", "PREPARE $ FROM @a", "EXECUTE $", "EXECUTE $ USING @a", "DEALLOCATE PREPARE $",
	"USE $", "CREATE DATABASE $", "DROP DATABASE $", "ALTER TABLE a RENAME TO $", "RENAME TABLE $ TO b", "RENAME TABLE a TO $", "ALTER TABLE a CHANGE $ b INT", "ALTER TABLE a MODIFY $ INT", "ALTER TABLE a MODIFY COLUMN $ INT AFTER $",
	"ALTER TABLE a ADD INDEX $ (a)", "ALTER TABLE a ADD $ INT FIRST", "ALTER TABLE a ADD CONSTRAINT $ UNIQUE (a)", "ALTER TABLE a DROP INDEX $", "ALTER TABLE a DROP $", "ALTER TABLE a DROP FOREIGN KEY $", "ALTER TABLE a RENAME COLUMN $ TO b", "ALTER TABLE a RENAME INDEX b TO $",
	"ALTER TABLE a ALTER $ SET DEFAULT 1", "ALTER TABLE a ORDER BY $", "CREATE TABLE a (b INT, PRIMARY KEY ($))", "CREATE TABLE a (b INT, KEY $ ($, b))", "CREATE TABLE a (b INT, UNIQUE KEY $ (b))", "CREATE TABLE a (b INT, $ INT, c INT)",
	"CREATE TABLE a (b INT, FOREIGN KEY (b) REFERENCES $ ($))", "CREATE TABLE a (b INT, CONSTRAINT $ CHECK ($ > 1))", "CREATE TABLE a (b INT GENERATED ALWAYS AS ($ + 1) VIRTUAL)", "CREATE TABLE a LIKE $", "CREATE TABLE a (b INT) PARTITION BY RANGE ($) (PARTITION $ VALUES LESS THAN (1))",
	"SELECT SUM(a) OVER $ FROM b WINDOW $ AS (PARTITION BY $ ORDER BY $)", "SELECT SUM(a) OVER (PARTITION BY $ ORDER BY a) FROM b", "SELECT a FROM b JOIN c USING ($)", "SELECT a FROM b LEFT JOIN $ ON b.a = $.a", "INSERT INTO b SET $ = 1", "INSERT INTO b (a, $) VALUES (1, 2)",
	"INSERT INTO b (a) VALUES (1) ON DUPLICATE KEY UPDATE $ = VALUES($)", "INSERT INTO b SELECT $ FROM c", "REPLACE INTO b SET $ = 1", "LOAD DATA INFILE 'x' INTO TABLE $ ($)", "GRANT SELECT ON $.* TO u", "GRANT SELECT ON a.$ TO u", "GRANT SELECT ($) ON b TO u",
	"HANDLER $ OPEN", "HANDLER $ OPEN AS a", "HANDLER a READ FIRST", "LOCK TABLES $ READ", "LOCK TABLES a AS $ READ", "SHOW TABLES FROM $", "SHOW INDEX FROM $ FROM $", "SHOW CREATE TABLE $", "SHOW COLUMNS IN $ LIKE 'x'", "DELETE $ FROM $ JOIN b", "DELETE FROM $ USING $ JOIN b",
	"UPDATE b, $ SET $.a = 1", "UPDATE b AS $ SET $.a = $.b ORDER BY $ LIMIT 1", "WITH $ ($) AS (SELECT 1) SELECT $ FROM $", "WITH RECURSIVE $ AS (SELECT 1 UNION ALL SELECT 2) SELECT 1 FROM $", "SELECT a FROM b PARTITION ($)", "CREATE TRIGGER $ BEFORE INSERT ON $ FOR EACH ROW SET NEW.$ = 1",
	"CREATE EVENT $ ON SCHEDULE EVERY 1 DAY DO SELECT 1", "CREATE PROCEDURE $() SELECT 1", "CREATE PROCEDURE p($ INT) SELECT $", "CREATE FUNCTION $() RETURNS INT RETURN 1", "DROP PROCEDURE $", "DROP TRIGGER $", "SELECT CASE $ WHEN $ THEN $ ELSE $ END FROM b", "SELECT a FROM b WHERE $ IS NULL",
	"SELECT a FROM b WHERE $ IN (1, 2)", "SELECT a FROM b WHERE a IN ($, b)", "SELECT a FROM b WHERE $ BETWEEN $ AND $", "SELECT a FROM b WHERE $ LIKE 'x'", "SELECT a FROM b WHERE NOT $", "SELECT a FROM b WHERE a XOR $", "SELECT - $, + $, ! $ FROM b", "SELECT a DIV $, a MOD $ FROM b",
	"SELECT a + INTERVAL $ DAY FROM b", "SELECT DATE_ADD($, INTERVAL 1 DAY) FROM b", "SELECT EXTRACT(DAY FROM $) FROM b", "SELECT CAST($ AS CHAR) FROM b", "SELECT CONVERT($ USING utf8mb4) FROM b", "SELECT a FROM b WHERE MATCH ($) AGAINST ('x')", "SELECT COUNT(DISTINCT $) FROM b",
	"SELECT GROUP_CONCAT($ ORDER BY $ SEPARATOR ',') FROM b", "SELECT a FROM b WHERE EXISTS (SELECT $ FROM c)", "SELECT (SELECT $ FROM c) AS $ FROM b", "SELECT a FROM (SELECT $ FROM c) AS $", "SELECT a FROM b USE INDEX ($, a)", "SELECT IF($, $, $) FROM b", "SELECT $, 1 FROM b UNION SELECT $, 2 FROM c",
	"SELECT DISTINCT $ FROM b", "SELECT ALL $ FROM b", "SELECT a, b.* FROM b, $", "SELECT a FROM b CROSS JOIN $", "SELECT a FROM b NATURAL JOIN $", "SELECT a FROM b STRAIGHT_JOIN $", "SELECT a FROM b LIMIT 1", "SELECT $ IS NOT NULL, $ <=> 1, $ COLLATE utf8mb4_bin FROM b",
	"ANALYZE TABLE $", "CHECK TABLE a, $", "OPTIMIZE TABLE $", "FLUSH TABLES $", "EXPLAIN SELECT $ FROM b", "EXPLAIN $", "DESC $ a", "TABLE $", "DO $", "CREATE ROLE $", "SET ROLE $", "CREATE SERVER $ FOREIGN DATA WRAPPER mysql OPTIONS (HOST 'x')", "CREATE UNIQUE INDEX $ ON b ($ DESC)", "DROP INDEX $ ON b",
	"SELECT a FROM b WHERE a > ALL (SELECT $ FROM c)", "SELECT a FROM b WHERE a = ANY (SELECT $ FROM c)", "INSERT IGNORE INTO $ VALUES (1)", "INSERT INTO $ (a) SELECT 1", "INSERT $ VALUES (1)", "REPLACE $ VALUES (1)", "UPDATE IGNORE $ SET a = 1", "DELETE QUICK FROM $", "TRUNCATE $",
}

// shownStatements are statements without a variable name: their shown text has to parse.
var shownStatements = []string{
	"create table a (b vector(3))", "create table a (b int column_format fixed)", "create table a (b enum('x', 'y') default 'x', c set('x'), d decimal(10, 2), e char(3) charset latin1)",
	"create table a (b int auto_increment primary key comment 'x') engine=InnoDB row_format=dynamic comment='x'", "alter table a convert to character set utf8mb4 collate utf8mb4_bin", "create user 'u'@'h' identified by 'x'", "create user u identified with mysql_native_password by 'x' require ssl",
	"grant select, insert on a.* to 'u'@'%' with grant option", "set names 'utf8mb4' collate 'utf8mb4_bin'", "set transaction isolation level read committed", "set @@session.sql_mode = 'ANSI'", "set global max_connections = 10", "set sql_mode = default",
	"show variables like 'x%'", "show status where variable_name = 'x'", "show engine innodb status", "show binary logs", "show grants for 'u'@'h'", "show create user u", "show warnings limit 1, 2", "kill connection 7", "signal sqlstate '45000' set message_text = 'x'",
	"select json_extract(a, '$.b'), a->'$.c', a->>'$.d' from b", "select * from json_table('[]', '$[*]' columns (a int path '$.a' default '1' on empty, b for ordinality, nested path '$.c' columns (d json path '$'))) as t", "select json_value(a, '$.b' returning int) from c",
	"select row_number() over (partition by a order by b rows between 1 preceding and unbounded following) from c", "select lag(a, 1, 0) over w, first_value(a) over w from b window w as (order by c)", "select trim(both 'x' from a), substring(a from 1 for 2), position('x' in a) from b",
	"select a regexp 'x', a rlike 'y', a sounds like 'z', a not like 'x' escape '!' from b", "select date '2026-01-01', timestamp '2026-01-01 00:00:00', interval 1 day + a from b", "select _utf8mb4'x' collate utf8mb4_bin, x'41', b'1', N'x', 0x41, 1e3, -1, +2, .5",
	"select cast(a as decimal(10, 2)), cast(a as unsigned), cast(a as char(10) character set latin1), convert(a, signed) from b", "select if(a, 1, 2), ifnull(a, 'x'), nullif(a, 1), coalesce(a, b, 1), greatest(1, 2, 3), interval(1, 2, 3), char(65, 66 using utf8mb4) from c",
	"select count(*), group_concat(distinct a order by b desc separator ';') from c group by d with rollup having count(*) > 1", "select * from a where (b, c) in ((1, 2), (3, 4)) and d in (1, 2, 3) and (e) not in ('x')", "insert into a values (1, 'x'), (2, default), (-3, null)", "insert into a (b) values row(1), row(2)",
	"values row(1, 2), row(3, 4)", "insert into a set b = 1, c = default on duplicate key update b = b + 1, c = values(c)", "update a set b = b + 1 where c is not true limit 10", "delete from a where b < now() - interval 30 day", "load data local infile 'x' into table a fields terminated by ',' enclosed by '\"' lines terminated by '\n' (b, @c) set d = @c",
	"select a into outfile 'x' fields terminated by ',' from b", "select a from b into @x, @y", "select a from b for update of b skip locked", "select a from b for share nowait", "select /*+ no_index_merge(b) max_execution_time(100) */ a from b", "select sql_calc_found_rows a from b limit 10 offset 20",
	"xa start 'x', 'y', 1", "xa commit 'x' one phase", "xa recover", "change master to master_host = 'x', master_port = 3306", "change replication source to source_host = 'x', source_auto_position = 1", "start slave", "stop replica", "reset master", "purge binary logs to 'x'", "flush local status", "flush tables a with read lock",
	"create table a (b int) partition by hash (b) partitions 4", "alter table a add partition (partition p1 values in (1, 2))", "alter table a reorganize partition p into (partition q values less than (10), partition r values less than maxvalue)", "alter table a exchange partition p with table b", "alter table a engine = InnoDB, algorithm = inplace, lock = none",
	"create definer = 'u'@'h' sql security invoker view v as select 1 with cascaded check option", "create event e on schedule at current_timestamp + interval 1 hour on completion preserve disable comment 'x' do delete from a", "create trigger t after update on a for each row begin set @x = new.b + old.b; end", "create procedure p(in a int, out b varchar(10), inout c int) deterministic reads sql data begin declare x int default 1; select a into b; end",
	"create function f(a int) returns varchar(10) charset utf8mb4 no sql return 'x'", "begin", "commit and chain", "rollback work", "start transaction with consistent snapshot", "lock instance for backup", "unlock tables", "analyze table a update histogram on b with 10 buckets", "explain format=json select 1", "explain analyze select 1", "analyze format=json select 1", "describe a 'b%'",
	"help 'x'", "checksum table a quick", "cache index a in b", "install plugin a soname 'x'", "create server s foreign data wrapper mysql options (user 'u', host 'h', port 1)", "create tablespace t add datafile 'x' engine = InnoDB", "create resource group g type = user vcpu = 0-3 thread_priority = 5", "alter user u account lock password expire interval 90 day",
	"create sequence s start with 1 increment by 2 minvalue 1 maxvalue 100 cache 10 cycle", "select next value for s, nextval(s), lastval(s), previous value for s", "create table a (b int, c timestamp(6) generated always as row start, d timestamp(6) generated always as row end, period for system_time (c, d)) with system versioning", "select * from a for system_time as of timestamp '2026-01-01'", "insert into a values (1) returning b",
	"set statement max_statement_time = 1 for select 1", "select a from b fetch first 3 rows with ties", "select percentile_cont(0.5) within group (order by a) over (partition by b) from c", "select median(a) over () from b", "select a from b except all select c from d intersect select 1", "create table a (b uuid, c inet6, d json check (json_valid(d)), e point srid 4326)",
	"select st_astext(point(1, 2)), st_geomfromtext('POINT(1 2)', 4326)", "select a member of ('[1]') from b", "select a from b, lateral (select b.a) as c", "alter table a alter index i invisible", "alter table a add column b int default (1 + 2) not null first, drop column c, rename index d to e", "table a order by b limit 1", "select a from b where match (c, d) against ('x' with query expansion)",
	"split table a between (0) and (100) regions 4", "trace select 1", "trace format = 'row' select 1", "admin check table a", "admin show ddl jobs 5", "batch on b limit 10 delete from a", "recover table by job 7", "flashback table a to b", "show stats_meta", "show table a regions", "select a ilike 'x' from b", "create table a (b bigint primary key auto_random(5)) shard_row_id_bits = 4",
	"create table a (b int, c timestamp) ttl = c + interval 1 day", "create placement policy p followers = 2", "alter table a set tiflash replica 1", "create global binding for select 1 using select 1", "import into a from 'x' with thread = 4", "backup database a to 'x'", "create resource group g ru_per_sec = 10", "create table a (b int primary key clustered)", "begin pessimistic",
	"alter table a cache", "drop stats a", "lock stats a", "show bindings", "query watch list", "calibrate resource", "cancel import job 1", "kill tidb 7", "set config tikv x = 1", "select tidb_version()", "create session binding for select 1 using select 1", "admin cancel ddl jobs 1, 2", "analyze table a with 5 topn", "analyze incremental table a",
}

// ambiguous are words that are not reserved on the server, but which the digest treats as keywords in some
// positions: the text before them does not decide between keyword and name.
var ambiguous = strings.Fields(`schema of row json_table extended format partitions rank lead lag ntile cume_dist dense_rank percent_rank first_value last_value nth_value
	sql_cache sql_no_cache sql_buffer_result duplicate nowait skip savepoint immediate quick boolean share rollup escape mode locked window end
	ilike groups expansion member against sounds offset mysql adddate subdate st_collect session_user system_user sysdate trim_oracle
	percentile_cont percentile_disc median`)

var (
	shownAll  = flag.Bool("shown.all", false, "have TestShownText try every word in every place")
	shownAddr = flag.String("shown.addr", "", "have TestShownText query the server at this address, whose root has no password, instead of its own")
)

// TestShownText uses words that are not reserved as names: where the server accepts the word as one, the text
// shows its spelling, has keywords in upper case, parses, and has the statement's digest. The words are those
// of the server and of the digest.
func TestShownText(t *testing.T) {
	if *shownAddr != "" {
		testShownText(t, "root@tcp("+*shownAddr+")/")
		return
	}
	t.Run("MariaDB", func(t *testing.T) { testShownText(t, testmysql.Shared(t).DSN(testmysql.RootUser)) })
	t.Run("MySQL", func(t *testing.T) {
		if testing.Short() {
			t.Skip("it starts a server")
		}
		s, err := testmysql.New(testmysql.WithMySQL())
		if errors.Is(err, testmysql.ErrNoMySQL) {
			t.Skip(err)
		}
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			if err := s.Close(); err != nil {
				t.Error(err)
			}
		})
		testShownText(t, s.DSN(testmysql.RootUser))
	})
}

func testShownText(t *testing.T, dsn string) {
	db, err := sql.Open("mysql", dsn)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	conn, err := db.Conn(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	var version string
	if err := conn.QueryRowContext(t.Context(), "SELECT VERSION()").Scan(&version); err != nil {
		t.Fatal(err)
	}
	s := &shown{t: t, conn: conn, mode: sqldigest.Mode(0).WithServer(sqldigest.ParseServer(version)).WithCharset(sqldigest.CharsetNamed([]byte("utf8mb4")))}
	for _, stmt := range shownStatements {
		s.check(stmt, stmt, "")
	}
	words := s.words()
	places := named
	if *shownAll {
		places = slices.Concat(named, placed)
	}
	for n, word := range words {
		for i, tmpl := range places {
			if strings.Contains(tmpl, "$") != (n > 0) && n > 0 || n > 0 && !*shownAll && (n+i)%8 != 0 {
				continue // each word in some of the positions
			}
			s.check(strings.ReplaceAll(tmpl, "$", word), tmpl, word)
		}
	}
	if s.accepted < len(words) {
		t.Errorf("the server accepted %d statements with %d words", s.accepted, len(words))
	}
	t.Logf("%s: %d statements with %d words", version, s.accepted, len(words))
}

// shown checks normalized texts on one server.
type shown struct {
	t        *testing.T
	conn     *sql.Conn
	mode     sqldigest.Mode
	d        sqldigest.Digester
	accepted int
}

// words returns a plain name, and the words known to the server or the digest that the server accepts as a
// table's name.
func (s *shown) words() []string {
	list, err := os.ReadFile("keywords.txt")
	if err != nil {
		s.t.Fatal(err)
	}
	var known []string
	for line := range strings.SplitSeq(string(list), "\n") {
		if f := strings.Fields(line); len(f) > 0 && f[0] != "#" {
			known = append(known, strings.ToLower(f[0]))
		}
	}
	for _, query := range []string{"SELECT word FROM information_schema.keywords", "SELECT function FROM information_schema.sql_functions", "SHOW BUILTINS"} {
		rows, err := s.conn.QueryContext(s.t.Context(), query)
		if err != nil {
			continue // not every server has all of them
		}
		for rows.Next() {
			var word string
			if err := rows.Scan(&word); err != nil {
				s.t.Fatal(err)
			}
			known = append(known, strings.ToLower(word))
		}
		if err := rows.Close(); err != nil {
			s.t.Fatal(err)
		}
	}
	slices.Sort(known)
	return append([]string{"myName"}, slices.DeleteFunc(slices.Compact(known), func(word string) bool {
		// Introducers and synonyms of USER are not distinguished from calls.
		return strings.HasPrefix(word, "_") || strings.HasSuffix(word, "_user") && sqldigest.LookupKeyword(word).String() == "USER" ||
			!parses(s.t.Context(), s.t, s.conn, "CREATE TABLE "+word+" (a INT)")
	})...)
}

// check checks the shown text of a statement, if the server accepts it.
func (s *shown) check(stmt, tmpl, word string) {
	t := s.t
	if !parses(t.Context(), t, s.conn, stmt) {
		return
	}
	s.accepted++
	digest := s.d.Digest([]byte(foldKeywords(tmpl, word)), s.mode)
	s.d.Digest([]byte(stmt), s.mode)
	text := string(s.d.Text())
	if got := s.d.Digest([]byte(stmt), s.mode); word != "" && got != digest && word != "schema" && slices.Contains(named, tmpl) {
		t.Errorf("%s\nshown as %s\nin lower case as another", stmt, text)
	}
	if n := strings.Count(tmpl, "$"); word != "" && strings.Count(text, word) < n && !slices.Contains(ambiguous, word) {
		t.Errorf("%s\nshown as %s: %s is spelled in another way", stmt, text, word)
	}
	if got := s.d.Digest([]byte(text), s.mode); got != s.d.Digest([]byte(stmt), s.mode) {
		t.Errorf("%s\nshown as %s\nwhose own digest is another", stmt, text)
	}
	again, ok := s.filled(text)
	if !ok {
		t.Errorf("%s\nshown as %s\ndoes not parse as %s", stmt, text, again)
	}
	s.d.Digest([]byte(stmt), s.mode)
	own := s.d.Sum()
	if got := s.d.Digest([]byte(again), s.mode); ok && got != own {
		t.Errorf("%s\nshown as %s\nwhich with values is shown as %s", stmt, text, s.d.Text())
	}
}

// values are possible values of a placeholder, and of a list.
var values = [2][]string{{"1", "'x'"}, {"1, 1", "'x', 'x'", "1, 1, 1", "'x', 'x', 'x'", "1, 'x'", "'x', 1"}}

// filled returns the text with values for its placeholders with which it parses: the value before the
// position where the server stops is replaced, as long as there are others.
func (s *shown) filled(text string) (stmt string, ok bool) {
	text = strings.NewReplacer("ROW (?), ...", "ROW (?), ROW (?)", "ROW (...), ...", "ROW (\x01), ROW (\x01)", "(?), ...", "(?), (?)", "(...), ...", "(\x01), (\x01)", "?, ...", "\x01", "...", "\x01").Replace(text)
	forms := make([]int, strings.Count(text, "?")+strings.Count(text, "\x01"))
	for range 12 * (len(forms) + 1) {
		var b strings.Builder
		var ends, lists []int
		for _, c := range text {
			switch list := 0; c {
			case '\x01':
				list = 1
				fallthrough
			case '?':
				n := len(ends)
				b.WriteString(values[list][forms[n]%len(values[list])])
				ends, lists = append(ends, b.Len()), append(lists, list)
			default:
				b.WriteRune(c)
			}
		}
		stmt = b.String()
		at, ok := stopsAt(s.t, s.conn, stmt)
		if ok {
			return stmt, true
		}
		n := 0
		for n < len(ends)-1 && ends[n+1]-1 <= at {
			n++
		}
		for n >= 0 && (n >= len(forms) || forms[n] >= len(values[lists[n]])-1) {
			n-- // no other value is left for it
		}
		if n < 0 {
			return stmt, false
		}
		forms[n]++
	}
	return stmt, false
}

// stopsAt reports whether the server parses the statement, and if not, the position where it stops.
func stopsAt(t *testing.T, conn *sql.Conn, stmt string) (at int, ok bool) {
	prepared, err := conn.PrepareContext(t.Context(), stmt)
	var my *mysql.MySQLError
	if err == nil {
		return 0, prepared.Close() == nil
	}
	if !errors.As(err, &my) || my.Number != 1064 {
		return 0, errors.As(err, &my)
	}
	_, near, _ := strings.Cut(my.Message, "near '")
	if _, after, found := strings.Cut(my.Message, "near \""); found {
		near = after // TiDB
	}
	if end := strings.LastIndexAny(near, "'\""); end >= 0 {
		near = near[:end]
	}
	if i := strings.LastIndex(stmt, near); i >= 0 && near != "" {
		return i, false
	}
	return len(stmt), false
}

// foldKeywords returns tmpl in lower case with word for $.
func foldKeywords(tmpl, word string) string {
	return strings.ReplaceAll(strings.ToLower(tmpl), "$", word)
}

// parses reports whether the server accepts the statement as part of its language, whatever it refers to.
func parses(ctx context.Context, t *testing.T, conn *sql.Conn, stmt string) bool {
	t.Helper()
	prepared, err := conn.PrepareContext(ctx, stmt)
	var my *mysql.MySQLError
	switch {
	case err == nil:
		return prepared.Close() == nil
	case errors.As(err, &my):
		return my.Number != 1064
	}
	t.Fatalf("prepare %q: %v", stmt, err)
	return false
}
