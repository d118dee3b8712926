package sqldigest

import "testing"

// TestPtFingerprintCases are the inputs of percona-toolkit's published fingerprint tests, in pairs: a
// statement, another, and whether they group. note explains where this package deliberately differs from
// pt-fingerprint, see section 8 of the specification.
func TestPtFingerprintCases(t *testing.T) {
	for _, c := range []struct {
		a, b    string
		grouped bool
		note    string
	}{
		{a: "select \n--bar\n foo", b: "select \n-- bar\n foo", note: "--bar is no comment in MySQL: a space must follow"},
		{a: "select foo -- bar\n", b: "select foo", grouped: true},
		{a: "select null, 5.001, 5001. from foo", b: "select 1, 2, 3 from foo", grouped: true},
		{a: `select 'hello', '\nhello\n', "hello", '\'' from foo`, b: "select 1, 2, 3, 4 from foo", grouped: true},
		{a: "select 'hello'\n", b: "select ''", grouped: true},
		{a: `select '\\' from foo`, b: "select 'x' from foo", grouped: true},
		{a: "select   foo", b: "select foo", grouped: true},
		{a: "SELECT * from foo where a = 5", b: " select  * from\nfoo where a = 6", grouped: true},
		{a: "select 0e0, +6e-30, -6.00 from foo where a = 5.5 or b=0.5 or c=.5", b: "select 1, 2, 3 from foo where a = 1 or b=2 or c=3", grouped: true},
		{a: "select 0x0, x'123', 0b1010, b'10101' from foo", b: "select 1, 2, 3, 4 from foo", grouped: true},
		{a: "select * from foo where a in (5) and b in (5, 8,9 ,9 , 10)", b: "select * from foo where a in (1, 2) and b in (3)", grouped: true},
		{a: "select foo_1 from foo_2_3", b: "select foo_2 from foo_2_3", note: "no number is taken out of a name"},
		{a: "select 123foo from 123foo", b: "select 124foo from 123foo", note: "no number is taken out of a name"},
		{a: "insert into foo(a, b, c) values(2, 4, 5)", b: "insert into foo(a, b, c) values(3, 5, 6)", grouped: true},
		{a: "insert into foo(a, b, c) values(2, 4, 5) , (2,4,5)", b: "insert into foo(a, b, c) values(2, 4, 5) , (2,4,5), (1,2,3)", grouped: true},
		{a: "insert into foo(a, b, c) values(2, 4, 5) , (2,4,5)", b: "insert into foo(a, b, c) values(2, 4, 5)", note: "one row and several are different statements, as in MySQL"},
		{a: "insert into foo(a, b, c) value(2, 4, 5)", b: "insert into foo(a, b, c) value(1, 2, 3)", grouped: true},
		{a: "select * from foo limit 5", b: "select * from foo limit 6", grouped: true},
		{a: "select * from foo limit 5, 10", b: "select * from foo limit 6, 11", grouped: true},
		{a: "select * from foo limit 5, 10", b: "select * from foo limit 5", note: "an offset makes another statement, as in MySQL"},
		{a: "select 1 union select 2 union select 4", b: "select 3 union select 4 union select 5", grouped: true},
		{a: "select 1 union select 2 union select 4", b: "select 1 union select 2", note: "the branches of a UNION count, as in MySQL"},
		{a: "select c from t where i=1 order by c asc", b: "select c from t where i=1 order by c", note: "ASC stays, as in MySQL"},
		{a: "use `foo`", b: "use `bar`", note: "the schema counts, as in MySQL"},
		{a: "CALL foo(1, 2, 3)", b: "call foo(4, 5)", grouped: true},
		{a: "LOAD DATA INFILE '/tmp/foo.txt' INTO db.tbl", b: "load data infile 'x' into db.tbl", grouped: true},
		{a: "/* -- S++ SU ABORTABLE -- spd_user: rspadim */SELECT SQL_SMALL_RESULT a FROM est_dia WHERE unidade_id=1001", b: "select sql_small_result a from est_dia where unidade_id=1", grouped: true},
		{a: "SELECT * FROM tbl WHERE id=1 AND flag=true AND trueflag=FALSE", b: "select * from tbl where id=2 and flag=false and trueflag=true", grouped: true},
		{a: "SELECT * FROM db.fbc5e685a5d3d45aa1d0347fdb7c4d35_temp where id=1", b: "SELECT * FROM db.abc5e685a5d3d45aa1d0347fdb7c4d35_temp where id=1", note: "names keep their bytes"},
		{a: `UPDATE groups_search SET  charter = '   -------3\'\' XXXXXXXXX.\n    \n    -----', show_in_list = 'Y' WHERE group_id='aaaaaaaa'`, b: "update groups_search set charter = 1, show_in_list = 2 where group_id=3", grouped: true},
		{a: "SELECT /*!40001 SQL_NO_CACHE */ * FROM `film`", b: "select sql_no_cache * from film", grouped: true},
	} {
		var d Digester
		if got := d.Digest([]byte(c.a), 0) == d.Digest([]byte(c.b), 0); got != c.grouped {
			t.Errorf("%q and %q: grouped %v, want %v (%s)", c.a, c.b, got, c.grouped, c.note)
		}
	}
}
