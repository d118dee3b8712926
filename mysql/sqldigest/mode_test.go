package sqldigest

import "testing"

func TestParseServer(t *testing.T) {
	for _, c := range []struct {
		version string
		want    Server
	}{
		{"5.5.5-10.11.19-MariaDB-0+deb12u1", Server{ServerMariaDB, 101119}},
		{"11.8.2-MariaDB-log", Server{ServerMariaDB, 110802}},
		{"9.7.4-2", Server{ServerMySQL, 90704}},
		{"8.0.36", Server{ServerMySQL, 80036}},
		{"8.0.36-28", Server{ServerMySQL, 80036}},
		{"8.0.11-TiDB-v8.4.0-alpha", Server{ServerTiDB, 80011}},
		{"8.0.30-Vitess", Server{}},
		{"8.0", Server{}},
		{"8.0.100", Server{}},
		{"8.0.36x", Server{}},
		{"", Server{}},
		{"none", Server{}},
	} {
		got := ParseServer(c.version)
		if got != c.want {
			t.Errorf("ParseServer(%q) is %v, want %v", c.version, got, c.want)
		}
		if m := (ANSIQuotes | SJIS).WithServer(got); m.Server() != c.want || m&0xff != ANSIQuotes|SJIS {
			t.Errorf("%v is lost in mode %#x", c.want, m)
		}
	}
}

func TestCharsetsAndModes(t *testing.T) {
	for _, c := range []struct {
		id   uint16
		name string
		mode Mode
	}{
		{1, "big5", Big5},
		{28, "gbk", GBK},
		{250, "gb18030", GBK},
		{13, "sjis", SJIS},
		{96, "cp932", SJIS},
		{8, "latin1", 0},
		{45, "utf8mb4", 0},
		{255, "utf8mb4", 0},
		{33, "utf8mb3", 0},
		{63, "binary", 0},
		{1111, "gbk", GBK},
		{2304, "utf8mb4", 0},
		{35, "ucs2", UnknownCharset},
		{10, "swe7", UnknownCharset},
		{4000, "", UnknownCharset},
	} {
		cs := CharsetOfCollation(c.id)
		if cs.String() != c.name {
			t.Errorf("collation %d is of %q, want %q", c.id, cs, c.name)
		}
		if CharsetNamed([]byte(c.name)) != cs {
			t.Errorf("no character set is named %q", c.name)
		}
		for _, before := range []Mode{0, ANSIQuotes | UnknownCharset, Mode(0).WithCharset(CharsetNamed([]byte("GBK")))} {
			m := before.WithCharset(cs)
			if got := m & (Big5 | GBK | SJIS | UnknownCharset); got != c.mode {
				t.Errorf("collation %d after %#x has mode %#x, want %#x", c.id, before, got, c.mode)
			}
			if m.Unknown() != (c.mode == UnknownCharset) || !m.Unknown() && m.Charset() != cs || m&ANSIQuotes != before&ANSIQuotes {
				t.Errorf("collation %d after %#x gives %#x", c.id, before, m)
			}
		}
	}
	m := (UnknownSQLMode | SJIS | NoBackslashEscapes).WithSQLMode([]byte("PIPES_AS_CONCAT,ANSI_QUOTES,IGNORE_SPACE,ORACLE"))
	if m != SJIS|ANSIQuotes|Oracle {
		t.Errorf("mode %#x", m)
	}
	if m = (m | UnknownSQLMode).WithSQLMode(nil); m != SJIS {
		t.Errorf("without any sql_mode: mode %#x", m)
	}
}
