package querylog

import (
	"strings"
	"testing"

	"github.com/taredb/tare/mysql/sqldigest"
)

// FuzzErrorTemplates puts values into the holes of every template: none is exposed, even if it contains words
// of templates, and the names after it are kept.
func FuzzErrorTemplates(f *testing.F) {
	f.Add("' for key '", "x", uint16(1062))
	f.Add("a value: 'b' for column 'c' at row 1", "", uint16(1366))
	f.Add("' at line 3", "' near '", uint16(1064))
	f.Add("' doesn't exist", "Table 'x.", uint16(1146))
	f.Add("' in table 'x", "", uint16(1735))
	lists := serverMessages(f)
	f.Fuzz(func(t *testing.T, before, after string, number uint16) {
		const marker = "S3CRETZZ"
		if strings.Contains(before+after, marker) || strings.Contains(before+after, "S3CRET;ZZ") {
			t.Skip()
		}
		number = 1000 + number%7000
		for template := range strings.SplitSeq(errorTemplates(number), "\n") {
			text := strings.NewReplacer("%v", before+marker+after, "%i", "name", "%f", "`d`.`t`", "%c", "field list", "%d", "7").Replace(template)
			got := string(appendRedactedError(nil, sqldigest.ServerUnknown, number, []byte(text)))
			if strings.Contains(template, "%v") && strings.Contains(got, marker) {
				t.Errorf("%d: %q shows %q", number, text, got)
			}
		}
		for server, messages := range lists {
			for _, m := range messages[number] {
				text, values := m.fill(number, server, before+marker+after)
				got := string(appendRedactedError(nil, server, number, []byte(text)))
				if values > 0 && strings.Contains(got, marker) {
					t.Errorf("%v %d: %q shows %q", server, number, text, got)
				}
			}
		}
		const noName = "S3CRET;ZZ" // a name's shape inside a template is a name
		for server := range sqldigest.ServerTiDB + 1 {
			got := string(appendRedactedError(nil, server, number, []byte(before+noName+after)))
			if strings.Contains(got, noName) {
				t.Errorf("%v %d: %q shows %q", server, number, before+noName+after, got)
			}
		}
	})
}

func TestEveryTemplateMatchesItself(t *testing.T) {
	holes := strings.NewReplacer("%v", "a 'b' c", "%i", "name", "%f", "`d`.`t`", "%c", "field list", "%d", "7")
	masked := strings.NewReplacer("%v", "?", "%i", "name", "%f", "`d`.`t`", "%c", "field list", "%d", "?")
	n := 0
	for number := range uint16(10000) {
		for template := range strings.SplitSeq(errorTemplates(number), "\n") {
			if template == "" {
				continue
			}
			n++
			if got, want := string(appendRedactedError(nil, sqldigest.ServerUnknown, number, []byte(holes.Replace(template)))), masked.Replace(template); got != want {
				t.Errorf("%d: %q, want %q", number, got, want)
			}
			if strings.Count(template, "%") > maxHoles {
				t.Errorf("%d has more than %d holes", number, maxHoles)
			}
		}
	}
	if n < 50 {
		t.Errorf("there are %d templates", n)
	}
}
