package rowstream

import "testing"

func TestAutoIncrement(t *testing.T) {
	for create, want := range map[string]uint64{
		"CREATE TABLE `a` (\n  `id` int\n) ENGINE=InnoDB AUTO_INCREMENT=18446744073709551615 DEFAULT CHARSET=utf8mb4":                                             18446744073709551615,
		"CREATE TABLE `a` (\n  `id` int\n) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COMMENT='x AUTO_INCREMENT=5 '":                                                   0,
		"CREATE TABLE `a` (\n  `id` int COMMENT '\n) AUTO_INCREMENT=5 it''s \\'',\n  KEY `\n) AUTO_INCREMENT=6`\n) ENGINE=InnoDB AUTO_INCREMENT=7\n PARTITION BY": 7,
		"": 0,
	} {
		if got := AutoIncrement(create); got != want {
			t.Errorf("%d, want %d: %s", got, want, create)
		}
	}
}
