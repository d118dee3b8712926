package sqldigest

import "testing"

// TestServers normalizes texts that servers and character sets read in different ways. The results are those
// of MariaDB 10.11.19 and MySQL 9.7.4.
func TestServers(t *testing.T) {
	maria := Mode(0).WithServer(ParseServer("10.11.19-MariaDB"))
	my := Mode(0).WithServer(ParseServer("9.7.4"))
	tidb := Mode(0).WithServer(ParseServer("8.0.11-TiDB-v8.4.0"))
	latin1 := func(m Mode) Mode { return m.WithCharset(CharsetNamed([]byte("latin1"))) }
	const unsure = "unsure"
	zeros := "0000000000000000000000000000000000000000000000000000000000000000000000000000"
	for _, c := range []struct {
		mode Mode
		sql  string
		want string
	}{
		{maria, "select 1 /*!50699 + 1 */", "SELECT ? + ?"},
		{my, "select 1 /*!50699 + 1 */", "SELECT ? + ?"},
		{maria, "select 1 /*!50700 + 1 */", "SELECT ?"},
		{my, "select 1 /*!50700 + 1 */", "SELECT ? + ?"},
		{maria, "select 1 /*!101119 + 1 */", "SELECT ? + ?"},
		{my, "select 1 /*!101119 + 1 */", "SELECT ?"},
		{maria, "select 1 /*!101120 + 1 */", "SELECT ?"},
		{my, "select 1 /*!090000 + 1 */", "SELECT ? + ?"},
		{maria, "select 1 /*!99999 ' */ + 1 /* ' */", "SELECT ? + ?"},
		{my, "select 1 /*!99999 /* ' */ ' */ + 1", "SELECT ? + ?"},
		{maria, "select 1 /*M! + 1 */", "SELECT ? + ?"},
		{my, "select 1 /*M! + 1 */", "SELECT ?"},
		{maria, "select 1 /*M!101120 + 1 */", "SELECT ?"},
		{maria, "select 1 /*T! + 1 */", "SELECT ?"},
		{tidb, "select 1 /*T! + 1 */", unsure},
		{tidb, "select 1 /*M! + 1 */", unsure},
		{Mode(0), "select 1 /*T! + 1 */", unsure},
		{my, "select 1 /*!0900001 + 1 */", unsure},
		{my, "select 1 /*!80000 + /* x */ 1 */", unsure},
		{latin1(maria), "select\xa01", "SELECT ?"},
		{latin1(my), "select 1 --\xa0+ 1", "SELECT ?"},
		{my, "select 1\x00", unsure},
		{maria, "select 1 -- \x00\n+ 1", unsure},
		{maria, "select '\x00'", "SELECT ?"},
		{my, "select /*+ ` */ 1 /* ` */", unsure},
		{my, "select /*+ ' */ 1", unsure},
		{my, "select /* x */ /*+ # */ 1", unsure},
		{my, "select /*+ BKA(`t`) */ 1", "SELECT /*+ BKA (`t`) */ ?"},
		{my, "select 1." + zeros + "from t", "SELECT ? FROM `t`"},
		{maria, "select 1" + zeros + "e5from t", "SELECT ? FROM `t`"},
		{my, "select " + zeros + ".5from t", "SELECT ? FROM `t`"},
		{my, "select @/**/from t", "SELECT @ FROM `t`"},
		{my, "select @ x", "SELECT @ `x`"},
		{my, "select @x", "SELECT @`x`"},
		{my, "select @\xc3\xa9", unsure},
		{my, "select $$x$$", unsure},
		{maria, "select $$x$$", "SELECT `$$x$$`"},
		{my, "select `date`(1), `date`, `date` from t", "SELECT `date`(?), date, date FROM `t`"},
		{my, "select `date` (1)", unsure},
		{tidb, "select 1\xa0", unsure},
		{UnknownCharset, "select 1", unsure},
	} {
		var d Digester
		d.Digest([]byte(c.sql), c.mode)
		got := string(d.Text())
		if d.Divergent() {
			got = unsure
		}
		if got != c.want {
			t.Errorf("%s %s: %q is %q, want %q", c.mode.Server().Kind, c.mode.Charset(), c.sql, got, c.want)
		}
		if Divergent([]byte(c.sql), c.mode) && !d.Divergent() {
			t.Errorf("%q: Divergent is not Digester.Divergent", c.sql)
		}
	}
}
