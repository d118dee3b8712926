package gateway

import (
	"testing"

	"github.com/taredb/tare/mysql/sqldigest"
)

func TestCharsetOf(t *testing.T) {
	for sql, want := range map[string]string{
		"SET NAMES utf8mb4":                             "utf8mb4",
		"set names 'GBK'":                               "gbk",
		"set names gb18030 collate gb18030_bin":         "gb18030",
		"SET CHARACTER SET sjis":                        "sjis",
		"set charset /* x */ latin1;":                   "",
		"set charset latin1":                            "latin1",
		"set character_set_client = cp932":              "",
		"set names gbk, character_set_client = utf8mb4": "",
		"set names gbk, names utf8mb4":                  "",
		"set names default":                             "",
		"set names 0x67626b":                            "",
		"set character_set_client = @x":                 "",
		"set names ?":                                   "",
		"set names gbk; select 1":                       "",
		"set names /*!99999 x */ gbk":                   "gbk",
		"":                                              "",
	} {
		mode := sqldigest.Mode(0).WithServer(sqldigest.ParseServer("10.11.6-MariaDB"))
		if got := charsetOf([]byte(sql), mode); got.String() != want {
			t.Errorf("%q: %q, want %q", sql, got, want)
		}
	}
}
