package doccommands_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/taredb/tare/internal/doccommands"
)

const page = `# A page

    make run

Text.

` + "```" + `
git clone https://example.com/x && cd x
curl -G http://h/p \
  --data-urlencode 'a=b'
{"data":[]}
` + "```" + `

1. In a list:

       tare top --sort p99   # the slowest

` + "```yaml" + `
tare: not a command
` + "```" + `
    curl http://in-a-paragraph
`

func TestExtract(t *testing.T) {
	commands, err := doccommands.Extract("page.md", page)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, c := range commands {
		got = append(got, c.String())
	}
	want := []string{
		"page.md:3: make run",
		"page.md:8: git clone https://example.com/x && cd x",
		"page.md:9: curl -G http://h/p --data-urlencode 'a=b'",
		"page.md:16: tare top --sort p99",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func TestExtractComments(t *testing.T) {
	commands, err := doccommands.Extract("tare.service", "# Install:\n#\n#   install -m 0755 bin/tare /usr/local/bin/tare\n#\n[Unit]\n")
	if err != nil || len(commands) != 1 || commands[0].Line != 3 || commands[0].Text != "install -m 0755 bin/tare /usr/local/bin/tare" {
		t.Errorf("%v, %v", commands, err)
	}
}

// TestUnknown: a program that the package does not know is an error, not output.
func TestUnknown(t *testing.T) {
	for _, text := range []string{"    wget http://h\n", "```\nmake run\nwget http://h\n```\n", "```sh\nmake run\n"} {
		if commands, err := doccommands.Extract("page.md", text); err == nil {
			t.Errorf("%q: no error; the commands are %v", text, commands)
		}
	}
}

func TestCalls(t *testing.T) {
	calls, err := doccommands.Calls(`cd bench && A=b go run ./relay -seconds 3 | benchstat -col '/by@(a b)' $HOME/x --pid $(pidof tare)`, map[string]string{"HOME": "/h"})
	if err != nil {
		t.Fatal(err)
	}
	want := []doccommands.Call{
		{Dir: "bench", Args: []string{"go", "run", "./relay", "-seconds", "3"}},
		{Dir: "bench", Args: []string{"benchstat", "-col", "/by@(a b)", "/h/x", "--pid", "1"}},
	}
	if diff := cmp.Diff(want, calls); diff != "" {
		t.Error(diff)
	}
	if _, err := doccommands.Calls("make 'run", nil); err == nil || !strings.Contains(err.Error(), "parse command") {
		t.Errorf("an open quote: %v", err)
	}
}

// TestPages checks that the pages are found, and that each of their lines is a command or data.
func TestPages(t *testing.T) {
	pages, err := doccommands.Pages("../..")
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	for _, p := range pages {
		commands, err := doccommands.Read("../..", p)
		if err != nil {
			t.Error(err)
		}
		n += len(commands)
	}
	if n < 80 {
		t.Errorf("%d commands on %d pages: the extractor misses some", n, len(pages))
	}
}
