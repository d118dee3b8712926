package sqldigest

import (
	"bufio"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven"
)

// TestGolden runs the transcripts in testdata/golden. Each command accepts the modes ansi and nobackslash,
// and each line of its input is a separate statement:
//
//	text    normalized text
//	same    the text that all lines have in common, or the lines that differ
//	redact  the redacted statement
//	lex     the tokens
//	tags    the sqlcommenter tags
func TestGolden(t *testing.T) {
	datadriven.Walk(t, "testdata/golden", func(t *testing.T, path string) {
		datadriven.RunTest(t, path, func(t *testing.T, td *datadriven.TestData) string {
			var m Mode
			if td.HasArg("ansi") {
				m |= ANSIQuotes
			}
			if td.HasArg("nobackslash") {
				m |= NoBackslashEscapes
			}
			var out strings.Builder
			if td.Cmd == "same" {
				return sameText(strings.Split(td.Input, "\n"), m)
			}
			for line := range strings.SplitSeq(td.Input, "\n") {
				golden(t, &out, td.Cmd, []byte(line), m)
			}
			return out.String()
		})
	})
}

func sameText(lines []string, m Mode) string {
	var d Digester
	var out strings.Builder
	texts := map[string]bool{}
	for _, line := range lines {
		d.Digest([]byte(line), m)
		if !texts[string(d.Text())] {
			texts[string(d.Text())] = true
			fmt.Fprintf(&out, "%s\n", d.Text())
		}
	}
	return out.String()
}

func golden(t *testing.T, out *strings.Builder, cmd string, sql []byte, m Mode) {
	var d Digester
	d.Digest(sql, m)
	switch cmd {
	case "text":
		fmt.Fprintf(out, "%s\n", d.Text())
	case "redact":
		fmt.Fprintf(out, "%s\n", AppendRedacted(nil, sql, m))
	case "tags":
		n := 0
		for k, v := range d.Tags() {
			fmt.Fprintf(out, "%s = %q\n", k, v)
			n++
		}
		if n == 0 {
			out.WriteString("none\n")
		}
	case "lex":
		var l Lexer
		l.Reset(sql, m)
		for tok := l.Next(); tok.Kind != KindEOF; tok = l.Next() {
			fmt.Fprintf(out, "%s %q", tok.Kind, sql[tok.Start:tok.End])
			if tok.Keyword != 0 {
				fmt.Fprintf(out, " %s", tok.Keyword)
			}
			out.WriteByte('\n')
		}
	default:
		t.Fatalf("unknown command %q", cmd)
	}
}

// TestVectors checks the digests that never change: a difference requires a new version of the specification,
// not a new file.
func TestVectors(t *testing.T) {
	f, err := os.Open("testdata/vectors.txt")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	var d Digester
	n := 0
	sc := bufio.NewScanner(f)
	for sc.Scan() {
		line := sc.Text()
		if line == "" || line[0] == '#' {
			continue
		}
		fields := strings.SplitN(line, "\t", 3)
		if len(fields) != 3 {
			t.Fatalf("vector %q has no three fields", line)
		}
		var m Mode
		if _, err := fmt.Sscan(fields[1], &m); err != nil {
			t.Fatalf("read the mode of %q: %v", line, err)
		}
		want, err := Parse(fields[0])
		if err != nil {
			t.Fatal(err)
		}
		if got := d.Digest([]byte(fields[2]), m); got != want {
			t.Errorf("mode %d %s\n got %s %s\nwant %s", m, fields[2], got, d.Text(), want)
		}
		n++
	}
	if err := sc.Err(); err != nil {
		t.Fatal(err)
	}
	if n < 40 {
		t.Errorf("%d vectors, want at least 40", n)
	}
}
