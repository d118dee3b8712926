package doccommands

import (
	"errors"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// A Command is one command line of a page, as printed.
type Command struct {
	Page string // the file, from the root of the repository
	Line int    // of its start, from 1
	Text string // continuations joined, without its comment
}

func (c Command) String() string { return fmt.Sprintf("%s:%d: %s", c.Page, c.Line, c.Text) }

// programs are the programs that documented commands start.
var programs = []string{
	"bin/tare", "tare", "make", "go", "mysql", "curl", "promtool", "benchstat", "git", "docker", "kill", "mkdir", "cd",
	"apt", "install", "systemctl", "systemd-sysusers", "journalctl", "kubectl", "e2e/run", "sha256sum", "minisign", "tar",
}

// A dataRule recognizes lines of blocks that are not commands.
type dataRule struct {
	pattern *regexp.Regexp
	what    string
}

// dataRules are tried before a line is treated as a command.
func dataRules() []dataRule {
	table := []struct{ pattern, what string }{
		{`\S {2,}\S|^>? *\d[\d,.]*( |$)`, "a table or the output of a terminal"},
		{`[─│┌┐└┘├┤▼]`, "a drawing"},
		{`^[\[{"]`, "JSON, or the result of a query"},
		{`^(sum|histogram_quantile)\b|^tare_[a-z_]+(\{| > )`, "PromQL"},
		{` [≈≤] `, "a formula"},
		{`^(- )?[a-z_]+:( |$)`, "YAML"},
		{`^CREATE TABLE `, "SQL"},
	}
	rules := make([]dataRule, len(table))
	for i, r := range table {
		rules[i] = dataRule{regexp.MustCompile(r.pattern), r.what}
	}
	return rules
}

var (
	fence      = regexp.MustCompile("^ *```([a-z]*) *$")
	comment    = regexp.MustCompile(`(^|\s\s+)#( .*)?$`)
	assignment = regexp.MustCompile(`^[A-Z_]+=\S*$`)
)

// shells are the languages of fenced blocks with commands.
var shells = []string{"", "sh", "bash", "shell"}

// Pages returns the files with commands for users: README.md, all pages of docs, and deploy.
func Pages(root string) ([]string, error) {
	pages := []string{"README.md"}
	for _, dir := range []string{"docs", "deploy"} {
		err := filepath.WalkDir(filepath.Join(root, dir), func(name string, entry os.DirEntry, err error) error {
			if err != nil || entry.IsDir() {
				return err
			}
			if dir == "docs" && path.Ext(name) != ".md" || slices.Contains([]string{".json", ".svg", ".webp"}, path.Ext(name)) {
				return nil
			}
			page, err := filepath.Rel(root, name)
			pages = append(pages, filepath.ToSlash(page))
			return err
		})
		if err != nil {
			return nil, fmt.Errorf("list pages of %s: %w", dir, err)
		}
	}
	return pages, nil
}

// Read extracts the commands of one page below root.
func Read(root, page string) ([]Command, error) {
	text, err := os.ReadFile(filepath.Join(root, filepath.FromSlash(page)))
	if err != nil {
		return nil, fmt.Errorf("read page: %w", err)
	}
	return Extract(page, string(text))
}

// Extract returns the commands of a page in order. In a file that is not Markdown, comments that are indented
// by three spaces are blocks.
func Extract(page, text string) ([]Command, error) {
	e := extractor{page: page, data: dataRules()}
	markdown := path.Ext(page) == ".md"
	n, blank := 0, true
	for line := range strings.Lines(text) {
		n++
		line = strings.TrimRight(line, "\r\n")
		if !markdown {
			line = commented(line)
		}
		blank = e.add(n, line, blank, markdown)
	}
	if e.fenced {
		e.errs = append(e.errs, fmt.Errorf("%s: a fence is not closed", page))
	}
	return e.commands, errors.Join(e.errs...)
}

// commented returns the text of a comment, with blocks indented as in Markdown, and "" for other lines.
func commented(line string) string {
	if text, ok := strings.CutPrefix(line, "#   "); ok {
		return "    " + text
	}
	text, _ := strings.CutPrefix(line, "# ")
	if text == line {
		return ""
	}
	return text
}

// An extractor processes the lines of a page.
type extractor struct {
	page     string
	data     []dataRule
	commands []Command
	errs     []error

	fenced   bool // within a fence
	shell    bool // with commands
	indented bool // within an indented block
	partial  bool // the previous line ends with a backslash
}

// add processes a line. It reports whether an indented block may follow.
func (e *extractor) add(n int, line string, blank, markdown bool) bool {
	if m := fence.FindStringSubmatch(line); markdown && m != nil {
		e.fenced, e.shell, e.partial = !e.fenced, slices.Contains(shells, m[1]), false
		return false
	}
	text := strings.TrimSpace(line)
	if e.fenced {
		if e.shell {
			e.code(n, text)
		}
		return false
	}
	e.indented = strings.HasPrefix(line, "    ") && (blank || e.indented || !markdown)
	if e.indented {
		e.code(n, text)
		return false
	}
	return text == ""
}

// code processes a line of a block.
func (e *extractor) code(n int, text string) {
	text = strings.TrimSpace(comment.ReplaceAllString(text, ""))
	if text == "" {
		return
	}
	text, partial := strings.CutSuffix(text, `\`)
	text = strings.TrimSpace(text)
	switch {
	case e.partial:
		e.commands[len(e.commands)-1].Text += " " + text
	case slices.ContainsFunc(e.data, func(r dataRule) bool { return r.pattern.MatchString(text) }):
		return
	case slices.Contains(programs, program(text)):
		e.commands = append(e.commands, Command{Page: e.page, Line: n, Text: text})
	default:
		e.errs = append(e.errs, fmt.Errorf("%s:%d: neither a command nor data: %q: add its program to programs, or a rule to dataRules, in internal/doccommands", e.page, n, text))
		return
	}
	e.partial = partial
}

// program returns the first word of a command after its assignments.
func program(text string) string {
	for word := range strings.FieldsSeq(text) {
		if !assignment.MatchString(word) {
			return word
		}
	}
	return ""
}
