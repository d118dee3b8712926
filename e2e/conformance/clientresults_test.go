//go:build e2e

package conformance

import (
	"bytes"
	"encoding/json"
	"encoding/xml"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// junit returns the results of the cases in the files of JUnit's format below a directory: "pass", or "skip" or "fail"
// with the reason.
func junit(work string, _ []byte) (map[string]string, error) {
	cases := map[string]string{}
	return cases, filepath.WalkDir(work, func(path string, _ fs.DirEntry, err error) error {
		base := filepath.Base(path)
		if err != nil || base != "junit.xml" && !(strings.HasPrefix(base, "TEST-") && filepath.Ext(base) == ".xml") {
			return err
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		var suite junitSuite
		if err := xml.Unmarshal(text, &suite); err != nil {
			return fmt.Errorf("parse %s: %w", path, err)
		}
		suite.collect(cases)
		return nil
	})
}

type junitSuite struct {
	Suites []junitSuite `xml:"testsuite"`
	Cases  []struct {
		Class   string         `xml:"classname,attr"`
		Name    string         `xml:"name,attr"`
		Failure []junitMessage `xml:"failure"`
		Error   []junitMessage `xml:"error"`
		Skipped []junitMessage `xml:"skipped"`
	} `xml:"testcase"`
}

type junitMessage struct {
	Message string `xml:"message,attr"`
	Text    string `xml:",chardata"`
}

func (s *junitSuite) collect(cases map[string]string) {
	for i := range s.Suites {
		s.Suites[i].collect(cases)
	}
	for _, c := range s.Cases {
		result := "pass"
		for _, m := range c.Skipped {
			result = "skip: " + m.Message + m.Text
		}
		for _, m := range slices.Concat(c.Failure, c.Error) {
			result = "fail: " + m.Message + "\n" + m.Text
		}
		name := strings.Trim(c.Class+"."+c.Name, ".")
		if cases[name] != "" { // of a test with parameters
			result = cases[name] + "\n" + result
		}
		cases[name] = result
	}
}

// goTest returns the results of tests in the output of go test -json.
func goTest(_ string, output []byte) (map[string]string, error) {
	cases, texts := map[string]string{}, map[string]string{}
	for line := range bytes.Lines(output) {
		var e struct{ Action, Test, Output string }
		if json.Unmarshal(line, &e) != nil || e.Test == "" {
			continue
		}
		texts[e.Test] += e.Output
		switch e.Action {
		case "pass":
			cases[e.Test] = "pass"
		case "fail", "skip":
			cases[e.Test] = e.Action + ": " + texts[e.Test]
		}
	}
	return cases, nil
}

var tapResult = regexp.MustCompile(`^(\s*)(not )?ok (\d+)(.*)$`)

// tap returns the results of the cases in the output of Perl's tests, each after a line of ## and its name.
func tap(_ string, output []byte) (map[string]string, error) {
	cases := map[string]string{}
	file, last := "", ""
	for line := range strings.Lines(string(output)) {
		line = strings.TrimRight(line, "\n")
		switch m := tapResult.FindStringSubmatch(line); {
		case strings.HasPrefix(line, "## t/"):
			file, last = strings.TrimPrefix(line, "## "), ""
		case strings.HasPrefix(line, "## "), strings.HasPrefix(line, "1..0"):
			cases[file] = "skip: " + line
			if line[0] == '#' {
				cases[file] = "fail: " + line
			}
		case m != nil:
			last = file + " " + m[1] + m[3]
			result := "pass"
			if _, reason, skipped := strings.Cut(m[4], "# skip"); skipped {
				result = "skip:" + reason
			} else if m[2] != "" {
				result = "fail:" + m[4]
			}
			for cases[last] != "" { // of a part of the file
				last += "'"
			}
			cases[last] = result
		case strings.HasPrefix(cases[last], "fail:"):
			cases[last] += "\n" + line
		}
	}
	return cases, nil
}

// scripts returns the results of scripts: each prints ## and its name, its output, and its exit code after ## again.
func scripts(_ string, output []byte) (map[string]string, error) {
	cases := map[string]string{}
	for part := range strings.SplitSeq("\n"+string(output), "\n## test/") {
		name, text, _ := strings.Cut("test/"+part, "\n")
		text, code, ended := strings.Cut(text, "\n## exit code ")
		switch {
		case !ended: // the output before the first
		case strings.HasPrefix(text, "skipping"):
			cases[name] = "skip: " + text
		case strings.TrimSpace(code) == "0":
			cases[name] = "pass"
		default:
			cases[name] = "fail: exit code " + code + text
		}
	}
	return cases, nil
}

// A caseAcceptance is a difference of a case that is no defect.
type caseAcceptance struct {
	reason string
	suite  string
	cases  *regexp.Regexp

	// pattern matches the differing texts of both results.
	pattern *regexp.Regexp

	// fails, if set, is the whole failure one way of a case that passes the other way.
	fails *regexp.Regexp
}

var caseAcceptances = []caseAcceptance{
	{
		reason:  "the gateway's certificate is its own, signed by no authority",
		suite:   "dbd-mariadb",
		cases:   regexp.MustCompile(`^t/92ssl_connection\.t 1$`),
		pattern: regexp.MustCompile(`TLS/SSL error: self-signed certificate( in certificate chain)?`),
	},
	{
		reason: "Ssl_cipher is that of the gateway's connection to the server",
		suite:  "php",
		cases:  regexp.MustCompile(`/bug55283\.phpt`),
		fails:  regexp.MustCompile(`^fail:[^+]*(\d\+   string\(22\) "TLS_AES_128_GCM_SHA256"\n[^+]*)+$`),
	},
	{
		reason: "the test's own server, which the gateway has no part in, reads one or two packets at a time",
		suite:  "php",
		cases:  regexp.MustCompile(`/ghsa-h35g-vwh6-m678-stmt-row-[a-z]+\.phpt`),
		fails:  regexp.MustCompile(`^fail:[^+]*\d\+ \[\*\] Received: 050000001901000000\n\d+- \[\*\] Received: 0500000019010000000100000001\n[^+]*$`),
	},
	{
		reason: "documented: MariaDB resets a connection at its wait_timeout, the gateway closes the client's",
		suite:  "mysqljs",
		cases:  regexp.MustCompile(`/test-server-timeout-disconnect\.js$`),
		fails:  regexp.MustCompile(`^fail: exit code 1\s*node:assert:(?s:.*)\n\+ 'ECONNRESET'\n- 'PROTOCOL_CONNECTION_LOST'\n`),
	},
	{ // to a close, mysql2 reports no error, and the test reads its code
		reason: "documented: MariaDB resets a connection at its wait_timeout, the gateway closes the client's",
		suite:  "mysql2",
		cases:  regexp.MustCompile(`/test-server-timeout-disconnect\.js$`),
		pattern: regexp.MustCompile(`^fail: exit code 1\s*(node:assert:(?s:.*)\n\+ 'ECONNRESET'\n- 'PROTOCOL_CONNECTION_LOST'\n|` +
			`\S*:19\n(?s:.*)\nTypeError: Cannot read properties of undefined \(reading 'code'\)\n)(?s:.*)$`),
	},
}

// acceptedCase returns the reason why a difference is no defect, "" if it is one.
func acceptedCase(suite, name, direct, through string) string {
	for _, a := range caseAcceptances {
		switch {
		case a.suite != suite || !a.cases.MatchString(name):
		case a.fails != nil && (direct == "pass" && a.fails.MatchString(through) || through == "pass" && a.fails.MatchString(direct)),
			a.pattern != nil && a.pattern.ReplaceAllString(direct, "…") == a.pattern.ReplaceAllString(through, "…"):
			return a.reason
		}
	}
	return ""
}

// A clientTable sums the verdicts of units up.
type clientTable struct {
	rows      map[[3]string]*counts // suite, version, server
	notes     map[string]int        // units that did not run and accepted cases, with the reason
	different []string
}

func (t *clientTable) note(server, suite, reason string) {
	if t.notes == nil {
		t.notes = map[string]int{}
	}
	t.notes[fmt.Sprintf("%s, %s: %s", suite, server, reason)]++
}

func (t *clientTable) leave(server, suite, reason string) {
	t.note(server, suite, "unit left out: "+reason)
}

func (t *clientTable) add(v *verdict, version string) {
	if v == nil {
		return // the run was interrupted
	}
	if t.rows == nil {
		t.rows = map[[3]string]*counts{}
	}
	key := [3]string{v.Suite, version, v.Server}
	if t.rows[key] == nil {
		t.rows[key] = &counts{}
	}
	r, c := t.rows[key], v.Cases
	r.Run, r.Equal, r.Skipped, r.Failed = r.Run+c.Run, r.Equal+c.Equal, r.Skipped+c.Skipped, r.Failed+c.Failed
	r.Accepted, r.Different, r.Excluded = r.Accepted+c.Accepted, r.Different+c.Different, r.Excluded+c.Excluded
	if v.Reason != "" {
		t.note(v.Server, v.Suite, "unit "+v.Reason)
	}
	for _, text := range v.Unstable {
		t.note(v.Server, v.Suite, "case excluded: "+text)
	}
	for _, reason := range v.Accepted {
		t.note(v.Server, v.Suite, "case accepted: "+reason)
	}
	if v.Verdict == different {
		t.different = append(t.different, v.Different)
	}
}

func (t *clientTable) String() string {
	var b strings.Builder
	b.WriteString("| suite | version | server | cases | equal | of these fail both ways | skipped both ways | accepted | different | excluded |\n|---|---|---|---|---|---|---|---|---|---|\n")
	for _, key := range sorted(t.rows, func(a, b [3]string) int { return slices.Compare(a[:], b[:]) }) {
		r := t.rows[key]
		fmt.Fprintf(&b, "| %s | %s | %s | %d | %d | %d | %d | %d | %d | %d |\n", key[0], key[1], key[2], r.Run, r.Equal, r.Failed, r.Skipped, r.Accepted, r.Different, r.Excluded)
	}
	b.WriteString("\n")
	for _, text := range slices.Sorted(maps.Keys(t.notes)) {
		fmt.Fprintf(&b, "- %s: %d\n", text, t.notes[text])
	}
	return b.String()
}
