package createtable

import (
	"strings"
	"testing"

	"github.com/taredb/tare/internal/alloctest"
)

// FuzzKeys reads arbitrary texts in place of SHOW CREATE TABLE: parts of keys are parts of the text.
func FuzzKeys(f *testing.F) {
	f.Add("CREATE TABLE `t` (\n  `a` int NOT NULL,\n  PRIMARY KEY (`a`),\n  UNIQUE KEY `b` (`b`(3) DESC,(lower(`c`))) /*!80000 INVISIBLE */\n) ENGINE=InnoDB AUTO_INCREMENT=7")
	f.Add("CREATE TABLE `t` (\n  KEY `a\n  KEY `b` (`c`),\n  KEY x (((((\n) AUTO_INCREMENT=99999999999999999999")
	f.Add("\n  PRIMARY KEY (\n  KEY  ()\n) AUTO_INCREMENT=-1 COMMENT='AUTO_INCREMENT=9'")
	f.Add("\n  KEY `")
	f.Fuzz(func(t *testing.T, text string) {
		defer alloctest.Bounded(t, 16<<20)()
		AutoIncrement(text)
		for _, k := range Keys(text) {
			if k.Hidden() && k.Options == "" {
				t.Errorf("%+v is hidden", k)
			}
			k.WithoutOverlaps()
			for _, part := range k.Parts {
				if !strings.Contains(text, part) {
					t.Errorf("%q is no part of the text", part)
				}
			}
		}
	})
}
