package help

import (
	"fmt"
	"io"
	"os"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"golang.org/x/sys/unix"
)

const (
	// Group is the annotation of a flag with the heading under which it is listed.
	Group = "tare-group"

	minWidth, maxWidth = 60, 100

	flagColumn = 6  // of a flag's name
	textColumn = 34 // of a flag's description
)

// Install sets the help of a command and its subcommands.
func Install(root *cobra.Command) {
	root.SetHelpFunc(func(cmd *cobra.Command, _ []string) {
		text := strings.TrimSpace(cmd.Long)
		if text == "" {
			text = cmd.Short
		}
		_, _ = io.WriteString(cmd.OutOrStdout(), paragraphs(text, width())+"\n"+usage(cmd, width())) // as cobra's own
	})
	root.SetUsageFunc(func(cmd *cobra.Command) error {
		_, err := io.WriteString(cmd.OutOrStderr(), usage(cmd, width()))
		return err
	})
}

// width returns the columns of the terminal, within bounds: COLUMNS, or the size of standard output, or 80.
func width() int {
	n, err := strconv.Atoi(os.Getenv("COLUMNS"))
	if err != nil {
		n = 80
		if size, err := unix.IoctlGetWinsize(syscall.Stdout, unix.TIOCGWINSZ); err == nil && size.Col > 0 {
			n = int(size.Col)
		}
	}
	return min(max(n, minWidth), maxWidth)
}

func usage(cmd *cobra.Command, width int) string {
	cmd.InitDefaultHelpFlag()
	cmd.InitDefaultVersionFlag()
	var out strings.Builder
	out.WriteString("Usage:\n")
	if cmd.Runnable() && !cmd.HasAvailableSubCommands() {
		fmt.Fprintf(&out, "  %s\n", cmd.UseLine())
	}
	if cmd.HasAvailableSubCommands() {
		fmt.Fprintf(&out, "  %s [command]\n", cmd.CommandPath())
	}
	if cmd.HasExample() {
		fmt.Fprintf(&out, "\nExamples:\n%s\n", strings.TrimRight(cmd.Example, "\n"))
	}
	if cmd.HasAvailableSubCommands() {
		out.WriteString("\nAvailable Commands:\n")
		for _, sub := range cmd.Commands() {
			if sub.IsAvailableCommand() || sub.Name() == "help" {
				entry(&out, 2, sub.NamePadding()+3, sub.Name(), sub.Short, width)
			}
		}
	}
	groups, flags := grouped(cmd)
	for _, name := range groups {
		heading := "Flags"
		if name != "" {
			heading = name
		}
		fmt.Fprintf(&out, "\n%s:\n", heading)
		for _, f := range flags[name] {
			entry(&out, flagColumn, textColumn, label(f), description(f), width)
		}
	}
	if cmd.HasAvailableSubCommands() {
		fmt.Fprintf(&out, "\nUse \"%s [command] --help\" for more information about a command.\n", cmd.CommandPath())
	}
	return out.String()
}

// grouped returns the visible flags of a command by heading, and the headings in the order of their first flags; flags without
// a heading come first.
func grouped(cmd *cobra.Command) (groups []string, flags map[string][]*pflag.Flag) {
	flags = make(map[string][]*pflag.Flag)
	add := func(f *pflag.Flag) {
		if f.Hidden {
			return
		}
		name := ""
		if group := f.Annotations[Group]; len(group) > 0 {
			name = group[0]
		}
		if !slices.Contains(groups, name) {
			groups = append(groups, name)
		}
		flags[name] = append(flags[name], f)
	}
	cmd.LocalFlags().VisitAll(add)
	cmd.InheritedFlags().VisitAll(add)
	if i := slices.Index(groups, ""); i > 0 {
		groups = slices.Insert(slices.Delete(groups, i, i+1), 0, "")
	}
	return groups, flags
}

func label(f *pflag.Flag) string {
	name, _ := pflag.UnquoteUsage(f)
	text := "--" + f.Name
	if name != "" {
		text += " " + name
	}
	if f.Shorthand != "" {
		text = "-" + f.Shorthand + ", " + text
	}
	return text
}

func description(f *pflag.Flag) string {
	_, text := pflag.UnquoteUsage(f)
	switch f.DefValue {
	case "", "0", "0s", "false", "[]":
		return text
	}
	if f.Value.Type() == "string" {
		return fmt.Sprintf("%s (default %q)", text, f.DefValue)
	}
	return text + " (default " + f.DefValue + ")"
}

// entry prints a name at one column and its description at another one, in the next line if the name reaches it. Names with a
// shorthand begin before their column, so that long names are aligned.
func entry(out *strings.Builder, at, textAt int, name, text string, width int) {
	if strings.HasPrefix(name, "-") && !strings.HasPrefix(name, "--") {
		at -= len("-x, ")
	}
	line := strings.Repeat(" ", at) + name
	if len(line)+2 > textAt {
		out.WriteString(line + "\n")
		line = ""
	}
	for i, part := range wrap(text, width-textAt) {
		if i > 0 {
			line = ""
		}
		out.WriteString(line + strings.Repeat(" ", textAt-len(line)) + part + "\n")
	}
}

// paragraphs wraps the paragraphs of a text. Indented ones stay as they are.
func paragraphs(text string, width int) string {
	var out strings.Builder
	for p := range strings.SplitSeq(text, "\n\n") {
		if strings.HasPrefix(p, " ") || strings.Contains(p, "\n ") {
			out.WriteString(p + "\n\n")
			continue
		}
		out.WriteString(strings.Join(wrap(p, width), "\n") + "\n\n")
	}
	return strings.TrimSuffix(out.String(), "\n")
}

// wrap breaks a text between words. A line is longer than the width only if it is one word.
func wrap(text string, width int) []string {
	var lines []string
	line, n := "", 0
	for word := range strings.FieldsSeq(text) {
		length := len([]rune(word))
		if line != "" && n+1+length > width {
			lines = append(lines, line)
			line, n = "", 0
		}
		if line != "" {
			line, n = line+" ", n+1
		}
		line, n = line+word, n+length
	}
	return append(lines, line)
}
