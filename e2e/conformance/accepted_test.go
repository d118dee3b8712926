//go:build e2e

package conformance

import (
	"bytes"
	"regexp"
	"slices"
	"strconv"
)

// An acceptance is a difference between the direct leg and the one through the gateway that is no defect.
type acceptance struct {
	reason string
	tests  *regexp.Regexp // of SUITE.TEST

	// pattern matches the differing text within a line of each leg; only lines that differ are tried.
	pattern *regexp.Regexp

	// ends, if set, is the whole output of a test that itself compares, and ends, through the gateway.
	ends *regexp.Regexp
}

// acceptances are all accepted differences. The port is another, and handled apart.
var acceptances = []acceptance{
	{
		reason: "counters of the server: the gateway reads the session's SQL mode after a change of user",
		tests:  regexp.MustCompile(`^main\.change_user$`),
		ends:   regexp.MustCompile(`At line \d+: The value of com_select changed during change_user`),
	},
	{
		reason:  "counters of the server: the gateway reads the session's SQL mode after a login",
		tests:   regexp.MustCompile(`^main\.(grant_cache|grant_cache_no_prot|query_cache|query_cache_notembedded)$`),
		pattern: regexp.MustCompile(`^Qcache_not_cached\t\d+\n`),
	},
	{
		reason: "documented: an account that the server blocked after wrong passwords stays refused for 10 s",
		tests:  regexp.MustCompile(`^main\.max_password_errors$`),
		ends:   regexp.MustCompile(`good_pass' failed: ER_USER_IS_BLOCKED \(4150\)`),
	},
}

// same reports whether a leg through the gateway has the result of a direct one, but for acceptances, and their reasons.
func same(test *suiteTest, direct, through *leg) (reasons []string, ok bool) {
	name := test.suite + "." + test.name
	for _, a := range acceptances {
		if a.ends != nil && a.tests.MatchString(name) && direct.code == 0 && a.ends.Match(through.output) {
			return []string{a.reason}, true
		}
	}
	alike := func(d, t []byte) []byte {
		return acceptLines(name, d, samePort(t, direct.port, through.port, &reasons), &reasons)
	}
	t := *through
	t.recorded, t.output = alike(direct.recorded, t.recorded), alike(direct.output, t.output)
	return slices.Compact(slices.Sorted(slices.Values(reasons))), direct.equal(&t)
}

// samePort replaces the gateway's port by the server's.
func samePort(text []byte, direct, through int, reasons *[]string) []byte {
	port := regexp.MustCompile(`\b` + strconv.Itoa(through) + `\b`)
	if !port.Match(text) {
		return text
	}
	*reasons = append(*reasons, "port")
	return port.ReplaceAll(text, strconv.AppendInt(nil, int64(direct), 10))
}

// acceptLines returns through with the lines of direct where an acceptance explains the whole difference. Legs with
// different numbers of lines stay as they are.
func acceptLines(name string, direct, through []byte, reasons *[]string) []byte {
	d, t := bytes.SplitAfter(direct, []byte("\n")), bytes.SplitAfter(through, []byte("\n"))
	if len(d) != len(t) {
		return through
	}
	for i := range d {
		if bytes.Equal(d[i], t[i]) {
			continue
		}
		for _, a := range acceptances {
			if a.ends == nil && a.tests.MatchString(name) && a.pattern.Match(d[i]) && bytes.Equal(a.pattern.ReplaceAll(d[i], []byte("…")), a.pattern.ReplaceAll(t[i], []byte("…"))) {
				t[i] = d[i]
				*reasons = append(*reasons, a.reason)
				break
			}
		}
	}
	return bytes.Join(t, nil)
}
