package help

import (
	"bytes"
	"fmt"
	"os"
	"strings"
	"syscall"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"

	"github.com/taredb/tare/internal/testseed"
)

// TestWrap wraps random texts: no word is lost, no line is too long that has a space, and no word had room in the line before.
func TestWrap(t *testing.T) {
	rnd := testseed.Rand(t)
	for range 3000 {
		var words []string
		for range rnd.IntN(12) {
			words = append(words, strings.Repeat([]string{"a", "ü"}[rnd.IntN(2)], 1+rnd.IntN(9)))
		}
		text, width := strings.Join(words, []string{" ", "\n", "  "}[rnd.IntN(3)]), 1+rnd.IntN(20)
		lines := wrap(text, width)
		if strings.Join(lines, " ") != strings.Join(words, " ") || len(words) == 0 && len(lines) != 1 {
			t.Fatalf("%q in %d columns: %q", text, width, lines)
		}
		for i, line := range lines {
			next := ""
			if i+1 < len(lines) {
				next, _, _ = strings.Cut(lines[i+1], " ")
			}
			long := utf8.RuneCountInString(line)
			if long > width && strings.Contains(line, " ") || next != "" && long+1+utf8.RuneCountInString(next) <= width {
				t.Fatalf("%q in %d columns: %q", text, width, lines)
			}
		}
	}
}

// TestEntry prints names of all lengths at a column, and their texts at another one.
func TestEntry(t *testing.T) {
	for n := 1; n < 12; n++ {
		for _, dash := range []string{"", "-", "--"} {
			var out strings.Builder
			name := dash + strings.Repeat("x", n)
			entry(&out, 6, 14, name, "some words", 20)
			at := 6
			if dash == "-" {
				at = 2
			}
			want := strings.Repeat(" ", at) + name
			if len(want) > 12 {
				want += "\n"
			}
			before := len(want[strings.LastIndex(want, "\n")+1:])
			want += strings.Repeat(" ", 14-before) + "some\n" + strings.Repeat(" ", 14) + "words\n"
			if got := out.String(); got != want {
				t.Errorf("%s:\n%s\nwant\n%s", name, got, want)
			}
		}
	}
}

// TestWidth reads the width of a terminal of each size, and of the environment.
func TestWidth(t *testing.T) {
	for columns, want := range map[string]int{"": 80, "x": 80, "-1": 60, "0": 60, "59": 60, "60": 60, "61": 61, "99": 99, "100": 100, "101": 100} {
		t.Setenv("COLUMNS", columns)
		if got := width(); got != want {
			t.Errorf("COLUMNS=%s: %d, want %d", columns, got, want)
		}
	}
	terminal, err := os.OpenFile("/dev/ptmx", os.O_RDWR, 0)
	if err != nil {
		t.Skip("no terminal: ", err)
	}
	defer terminal.Close()
	stdout, err := unix.Dup(syscall.Stdout)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = unix.Close(stdout) }()
	widthAt := func(columns uint16) int {
		if err := unix.IoctlSetWinsize(int(terminal.Fd()), unix.TIOCSWINSZ, &unix.Winsize{Row: 25, Col: columns}); err != nil {
			t.Fatal(err)
		}
		if err := unix.Dup2(int(terminal.Fd()), syscall.Stdout); err != nil {
			t.Fatal(err)
		}
		defer func() { _ = unix.Dup2(stdout, syscall.Stdout) }()
		return width()
	}
	for columns, want := range map[uint16]int{0: 80, 1: 60, 72: 72, 200: 100} {
		t.Setenv("COLUMNS", "")
		if got := widthAt(columns); got != want {
			t.Errorf("a terminal of %d columns: %d, want %d", columns, got, want)
		}
		t.Setenv("COLUMNS", "90")
		if got := widthAt(columns); got != 90 {
			t.Errorf("a terminal of %d columns and COLUMNS: %d", columns, got)
		}
	}
}

// newTree returns commands with flags of each kind.
func newTree(t *testing.T, out *bytes.Buffer) *cobra.Command {
	t.Setenv("COLUMNS", "80")
	root := &cobra.Command{Use: "scale", Short: "Weigh", Version: "1.2"}
	root.PersistentFlags().String("log", "", "where to log")
	sub := &cobra.Command{Use: "weigh", Short: "Weigh things", Version: "3", Run: func(*cobra.Command, []string) {}}
	sub.AddCommand(&cobra.Command{Use: "again", Short: "Weigh them again", Run: func(*cobra.Command, []string) {}}, &cobra.Command{Use: "secretly", Short: "Hidden", Hidden: true, Run: func(*cobra.Command, []string) {}})
	flags := sub.Flags()
	flags.SortFlags = false
	flags.Float64("most", 0.5, "the most")
	flags.StringSlice("of", nil, "parts")
	flags.Duration("after", 0, "when to start")
	flags.Bool("on", true, "switch")
	flags.Int("none", 0, "nothing")
	flags.Bool("hidden", false, "hidden")
	for flag, group := range map[string]string{"most": "Amounts", "of": "Amounts", "after": "Times"} {
		if err := flags.SetAnnotation(flag, Group, []string{group}); err != nil {
			t.Fatal(err)
		}
	}
	if err := flags.MarkHidden("hidden"); err != nil {
		t.Fatal(err)
	}
	root.AddCommand(sub)
	root.CompletionOptions.DisableDefaultCmd = true
	Install(root)
	root.SetOut(out)
	root.SetErr(out)
	return root
}

// TestGroups prints the help of a command with flags of each kind, whose first ones have headings.
func TestGroups(t *testing.T) {
	var out bytes.Buffer
	root := newTree(t, &out)
	root.SetArgs([]string{"weigh", "--help"})
	if err := root.Execute(); err != nil {
		t.Fatal(err)
	}
	const usage = `Usage:
  scale weigh [command]

Available Commands:
  again       Weigh them again

Flags:
      --on                        switch (default true)
      --none int                  nothing
  -h, --help                      help for weigh
  -v, --version                   version for weigh
      --log string                where to log

Amounts:
      --most float                the most (default 0.5)
      --of strings                parts

Times:
      --after duration            when to start

Use "scale weigh [command] --help" for more information about a command.
`
	if diff := cmp.Diff("Weigh things\n\n"+usage, out.String()); diff != "" {
		t.Error(diff)
	}
	out.Reset()
	root = newTree(t, &out)
	root.SetArgs([]string{"weigh", "--no-such"})
	if err := root.Execute(); err == nil {
		t.Error("an unknown flag is accepted")
	}
	if diff := cmp.Diff("Error: unknown flag: --no-such\n"+usage+"\n", out.String()); diff != "" {
		t.Error(diff)
	}
	out.Reset()
	if err := root.Commands()[0].Usage(); err != nil || fmt.Sprint(out.Len()) == "0" {
		t.Errorf("%q, %v", out.String(), err)
	}
}
