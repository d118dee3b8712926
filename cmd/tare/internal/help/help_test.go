package help

import (
	"bytes"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/spf13/cobra"
)

func TestHelp(t *testing.T) {
	t.Setenv("COLUMNS", "60")
	var out bytes.Buffer
	root := &cobra.Command{Use: "scale", Short: "Weigh"}
	sub := &cobra.Command{
		Use: "weigh", Short: "Weigh things", Example: "  scale weigh --unit kg", Run: func(*cobra.Command, []string) {},
		Long: "Weigh things, which takes a sentence that is longer than a\nline.\n\n  weigh  a\n  weigh  bb",
	}
	flags := sub.Flags()
	flags.SortFlags = false
	flags.String("unit", "g", "unit of the `name` of what is weighed, with a description of several lines")
	flags.Bool("a-flag-that-is-longer-than-the-column", false, "described below")
	flags.BoolP("quiet", "q", false, "print nothing")
	flags.Int("tries", 3, "attempts")
	if err := flags.SetAnnotation("a-flag-that-is-longer-than-the-column", Group, []string{"Rare"}); err != nil {
		t.Fatal(err)
	}
	root.AddCommand(sub)
	Install(root)
	root.SetOut(&out)
	root.SetArgs([]string{"weigh", "--help"})
	if err := root.Execute(); err != nil {
		t.Fatal(err)
	}
	const want = `Weigh things, which takes a sentence that is longer than a
line.

  weigh  a
  weigh  bb

Usage:
  scale weigh [flags]

Examples:
  scale weigh --unit kg

Flags:
      --unit name                 unit of the name of what
                                  is weighed, with a
                                  description of several
                                  lines (default "g")
  -q, --quiet                     print nothing
      --tries int                 attempts (default 3)
  -h, --help                      help for weigh

Rare:
      --a-flag-that-is-longer-than-the-column
                                  described below
`
	if diff := cmp.Diff(want, out.String()); diff != "" {
		t.Error(diff)
	}
	for line := range strings.Lines(out.String()) {
		if len(line) > 61 {
			t.Errorf("a line of %d columns: %s", len(line)-1, line)
		}
	}
}

func TestCommands(t *testing.T) {
	t.Setenv("COLUMNS", "many")
	var out bytes.Buffer
	root := &cobra.Command{Use: "scale", Short: "Weigh things"}
	root.AddCommand(&cobra.Command{Use: "weigh", Short: "Weigh one thing", Run: func(*cobra.Command, []string) {}})
	root.SetHelpCommand(&cobra.Command{Use: "help", Short: "Show the help of a command"})
	root.CompletionOptions.DisableDefaultCmd = true
	Install(root)
	root.SetOut(&out)
	root.SetArgs([]string{"--help"})
	if err := root.Execute(); err != nil {
		t.Fatal(err)
	}
	const want = `Weigh things

Usage:
  scale [command]

Available Commands:
  help        Show the help of a command
  weigh       Weigh one thing

Flags:
  -h, --help                      help for scale

Use "scale [command] --help" for more information about a command.
`
	if diff := cmp.Diff(want, out.String()); diff != "" {
		t.Error(diff)
	}
}
