package querylog

import (
	"os/exec"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// FuzzErrorTemplates puts values into the holes of every template: none survives, whatever words of
// templates are in it, and the names after it do.
func FuzzErrorTemplates(f *testing.F) {
	f.Add("' for key '", "x", uint16(1062))
	f.Add("a value: 'b' for column 'c' at row 1", "", uint16(1366))
	f.Add("' at line 3", "' near '", uint16(1064))
	f.Fuzz(func(t *testing.T, before, after string, number uint16) {
		const marker = "S3CRETZZ"
		if strings.Contains(before+after, marker) || strings.Contains(before+after, "S3CRET;ZZ") {
			t.Skip()
		}
		number = 1040 + number%3000
		for template := range strings.SplitSeq(errorTemplates(number), "\n") {
			text := strings.NewReplacer("%v", before+marker+after, "%i", "name", "%f", "`d`.`t`", "%c", "field list", "%d", "7").Replace(template)
			got := string(appendRedactedError(nil, number, []byte(text)))
			if strings.Contains(template, "%v") && strings.Contains(got, marker) {
				t.Errorf("%d: %q shows %q", number, text, got)
			}
		}
		const noName = "S3CRET;ZZ" // what looks like a name in a template is one
		got := string(appendRedactedError(nil, number, []byte(before+noName+after)))
		if strings.Contains(got, noName) {
			t.Errorf("%d: %q shows %q", number, before+noName+after, got)
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
			if got, want := string(appendRedactedError(nil, number, []byte(holes.Replace(template)))), masked.Replace(template); got != want {
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

// TestServersMessages fills the holes of the messages that MariaDB's perror prints, of every number: no
// value is shown, and of a message with a template the words are.
func TestServersMessages(t *testing.T) {
	perror, err := exec.LookPath("perror")
	if err != nil {
		t.Skip("untested: there is no perror to print a server's messages")
	}
	var numbers []string
	for n := 1000; n < 4400; n++ {
		numbers = append(numbers, strconv.Itoa(n))
	}
	out, _ := exec.CommandContext(t.Context(), perror, numbers...).Output() // it fails for numbers that are none
	format := regexp.MustCompile(`(?m)^MariaDB error code (\d+) \([A-Z0-9_]+\): (.*)$`)
	hole := regexp.MustCompile("%(-?[0-9]*)(\\.[0-9]+)?(\\.\\*)?(l*[diuxc]|[csMT])[TQ]?|%`?(-?\\.[0-9]+)?`?s")
	messages, shown := 0, 0
	for _, m := range format.FindAllStringSubmatch(string(out), -1) {
		number, err := strconv.Atoi(m[1])
		if err != nil {
			t.Fatal(err)
		}
		messages++
		const value = "S3CRET;'zz' 7373" // no name
		text := hole.ReplaceAllString(m[2], value)
		got := string(appendRedactedError(nil, uint16(number), []byte(text)))
		if strings.Contains(got, "S3CRET") || strings.Contains(got, "7373") {
			t.Errorf("%d: %q shows %q", number, text, got)
		}
		if errorTemplates(uint16(number)) == "" && got != "?" {
			t.Errorf("%d has no template and shows %q", number, got)
		}
		if got != "?" {
			shown++
		}
	}
	if messages < 800 || shown < 25 {
		t.Errorf("perror printed %d messages, of which %d have a template", messages, shown)
	}
}
