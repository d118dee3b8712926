package archtest

import (
	"fmt"
	"path"
	"regexp"
	"strings"
)

// A retiredWord is an idiom that the project's texts do not use, with its replacement.
type retiredWord struct {
	pattern *regexp.Regexp
	write   string
}

// A vocabulary is all retired words.
type vocabulary struct {
	any   *regexp.Regexp // matches if one of the words does
	words []retiredWord
}

// retiredWords returns the glossary of Prose. Order matters only for which finding is reported first.
func retiredWords() vocabulary {
	table := []struct{ pattern, write string }{
		{`\b(tell|tells|telling)\b`, "report, notify or expose"},
		{`\b(answer|answers|answered|answering)\b`, "return, respond or response"},
		{`\b(nobody|somebody|everybody|whoever)\b`, "name the client, the operator, the caller or the peer"},
		{`(?:^|[.;:,(] |\b(?:by|to|of|for|from|with) )who\b`, "name the subject: the client, the operator, the caller"},
		{`\b(go|goes|going|gone|went) on\b`, "resume or continue"},
		{`\b(is|are|was|were) (noted|gone)\b`, "recorded; closed, disconnected or deleted"},
		{`\b(anew|once more)\b`, "again, or a verb with re-"},
		{`\bat hand\b`, "current"},
		{`\bof late\b`, "recent"},
		{`\b(a|per) (row|entry|line|byte|object|request|chunk|statement|file|page|second) an? [a-z]+\b`, "one … per …"},
		{`(?:^|[.;] )That (a|an|the|it|there)\b`, "start with the subject"},
		{`\bby (itself|themselves)\b`, "independently or automatically"},
		{`\bbe had\b`, "unavailable"},
		{`\blook(s|ed|ing)? at\b`, "check, poll or inspect"},
		{`\bstands still\b`, "is paused"},
	}
	all := vocabulary{words: make([]retiredWord, len(table))}
	patterns := make([]string, len(table))
	for i, w := range table {
		all.words[i], patterns[i] = retiredWord{regexp.MustCompile("(?i)" + w.pattern), w.write}, w.pattern
	}
	all.any = regexp.MustCompile("(?i)" + strings.Join(patterns, "|"))
	return all
}

var (
	inlineCode = regexp.MustCompile("`[^`]*`")
	markup     = regexp.MustCompile(`<[^>]*>|\{\{[^}]*\}\}`)
)

// howToLines is the maximum number of lines of a page under docs/start, docs/tasks or docs/operate, and
// proseColumns the maximum number of characters of a line of prose.
const (
	howToLines   = 150
	proseColumns = 100
)

// Prose checks the texts that a user reads, Markdown and page templates: they use none of the retired words,
// and a how-to page is short. Code, quoted file names and markup are not checked.
func Prose(t *Tree) ([]Finding, error) {
	words := retiredWords()
	var findings []Finding
	for _, name := range t.Files {
		markdown := strings.HasSuffix(name, ".md")
		if !markdown && !strings.HasSuffix(name, ".html") || strings.Contains("/"+name, "/testdata/") {
			continue
		}
		text, err := t.read(name)
		if err != nil {
			return nil, err
		}
		lines := strings.Split(string(text), "\n")
		if markdown && howTo(name) && len(lines) > howToLines {
			findings = append(findings, Finding{
				name, fmt.Sprintf("%d lines, at most %d", len(lines), howToLines),
				"move formats, fields and measurements to docs/reference or docs/background",
			})
		}
		findings = append(findings, proseLines(name, lines, words)...)
	}
	return findings, nil
}

// proseLines checks the lines of a text outside of code.
func proseLines(name string, lines []string, words vocabulary) (findings []Finding) {
	markdown, code := strings.HasSuffix(name, ".md"), false
	for i, line := range lines {
		if strings.HasPrefix(strings.TrimSpace(line), "```") {
			code = !code
		}
		if code || markdown && strings.HasPrefix(line, "    ") {
			continue
		}
		where := fmt.Sprintf("%s:%d", name, i+1)
		if found, ok := retired(words, prose(line)); ok {
			found.Where = where
			findings = append(findings, found)
		}
		if markdown && howTo(name) && tooWide(line) {
			findings = append(findings, Finding{where, "is too wide", fmt.Sprintf("wrap prose at %d characters", proseColumns)})
		}
	}
	return findings
}

// prose returns a line without code and markup.
func prose(line string) string {
	return markup.ReplaceAllString(inlineCode.ReplaceAllString(line, "·"), " ")
}

// retired reports the first retired word of a text.
func retired(words vocabulary, text string) (Finding, bool) {
	if !words.any.MatchString(text) {
		return Finding{}, false
	}
	for _, w := range words.words {
		if found := w.pattern.FindString(text); found != "" {
			return Finding{What: fmt.Sprintf("says %q", strings.TrimLeft(found, ".;:,( ")), Remedy: "write: " + w.write}, true
		}
	}
	return Finding{}, false
}

// howTo reports whether a page is a how-to guide.
func howTo(name string) bool {
	switch path.Dir(name) {
	case "docs/start", "docs/tasks", "docs/operate":
		return true
	}
	return false
}

// tooWide reports whether a line of prose should have been wrapped: tables, headings and lines of one word
// cannot be.
func tooWide(line string) bool {
	return len([]rune(line)) > proseColumns && !strings.HasPrefix(line, "|") && !strings.HasPrefix(line, "#") &&
		!strings.HasPrefix(line, "!") && strings.Contains(strings.TrimSpace(line)[:proseColumns/2], " ")
}
