package promapi

import (
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql/parser"
	"github.com/prometheus/prometheus/util/strutil"
)

// Bounds of the regular expressions of a request, in steps that they compile to: about the bytes of the text, times its repetitions, which
// are expanded. 100,000 take about half a second and 30 MB to compile, some 2,000 values of a dashboard's variable 0.1 s.
const (
	maxRegexpSteps   = 1 << 18
	largeRegexpSteps = 1000 // requests with more are served one at a time
	maxRepeated      = 1000 // Go's limit of a number
)

var errRegexps = errors.New("regular expressions are too large")

// regexps are the regular expressions of a request.
type regexps struct {
	steps int
	large func() error // called once, when there are more than largeRegexpSteps; nil: not
}

// add adds an expression before it is compiled.
func (r *regexps) add(pattern string) error {
	before := r.steps
	r.steps += regexpSteps(pattern)
	switch {
	case r.steps > maxRegexpSteps:
		return fmt.Errorf("%w: %.40q… compiles to more than %d steps with the others of the request: shorten it, or send several requests",
			errRegexps, pattern, maxRegexpSteps)
	case before <= largeRegexpSteps && r.steps > largeRegexpSteps && r.large != nil:
		return r.large()
	}
	return nil
}

// addText adds the regular expressions of a text in PromQL. Errors of the text itself are left to the parser.
func (r *regexps) addText(input string) error {
	if !strings.Contains(input, "~") {
		return nil
	}
	lexer := parser.Lex(input)
	pattern := false
	for {
		var item parser.Item
		lexer.NextItem(&item)
		switch {
		case item.Typ == parser.EOF || item.Typ == parser.ERROR:
			return nil
		case item.Typ == parser.EQL_REGEX || item.Typ == parser.NEQ_REGEX:
			pattern = true
			continue
		case pattern && item.Typ == parser.STRING:
			if text, err := strutil.Unquote(item.Val); err == nil {
				if err := r.add(text); err != nil {
					return fmt.Errorf("parse expression: %w", err)
				}
			}
		}
		pattern = false
	}
}

// regexpSteps returns about how many steps an expression compiles to, without its tree, which takes as long to make as the steps.
func regexpSteps(pattern string) int {
	groups := []int{0} // steps of the open groups
	last := 0          // steps that a repetition after them repeats
	add := func(n int) {
		last = min(n, 2*maxRegexpSteps)
		groups[len(groups)-1] = min(groups[len(groups)-1]+last, 2*maxRegexpSteps)
	}
	for i := 0; i < len(pattern); i++ {
		switch pattern[i] {
		case '\\':
			if strings.HasPrefix(pattern[i:], `\Q`) { // its brackets are literals
				text, _, ended := strings.Cut(pattern[i+2:], `\E`)
				add(len(text))
				last = min(last, utf8.UTFMax)
				if i += 1 + len(text); ended {
					i += 2
				}
				continue
			}
			i++
			add(1)
		case '[':
			end := classEnd(pattern, i)
			add(1 + (end-i)/4)
			i = end
		case '(':
			groups = append(groups, 0)
		case ')':
			inner := len(groups) - 1
			n := groups[inner]
			if groups = groups[:inner]; inner == 0 { // it closes the group that Prometheus puts an expression in
				groups = append(groups, 0)
			}
			add(n + 2)
		case '{':
			if n, end := repetitions(pattern, i); end > 0 {
				each := last
				add(each * max(0, n-1))
				last = min(each*max(1, n), 2*maxRegexpSteps)
				i = end
				continue
			}
			add(1)
		default:
			add(1)
		}
	}
	steps := 0
	for _, n := range groups {
		steps += n
	}
	return steps
}

// classEnd returns where the character class that begins at a byte ends.
func classEnd(pattern string, at int) int {
	for i := at + 1; i < len(pattern); i++ {
		switch {
		case pattern[i] == '\\':
			i++
		case pattern[i] == ']' && i > at+1 && (i > at+2 || pattern[at+1] != '^'):
			return i
		}
	}
	return len(pattern)
}

// repetitions parses {n}, {n,} or {n,m} at a byte, and returns the greater number and the last byte; 0: it is none.
func repetitions(pattern string, at int) (most, end int) {
	n := 0
	for i := at + 1; i < len(pattern); i++ {
		switch c := pattern[i]; {
		case '0' <= c && c <= '9':
			n = min(10*n+int(c-'0'), maxRepeated)
		case c == ',':
			most, n = n, 0
		case c == '}' && i > at+1:
			return max(most, n), i
		default:
			return 0, 0
		}
	}
	return 0, 0
}

// NewMatcher is labels.NewMatcher. It rejects a regular expression that takes too much time and memory to compile.
func NewMatcher(t labels.MatchType, name, value string) (*labels.Matcher, error) {
	return new(regexps).matcher(t, name, value)
}

// matcher is NewMatcher for one of several matchers.
func (r *regexps) matcher(t labels.MatchType, name, value string) (*labels.Matcher, error) {
	if t == labels.MatchRegexp || t == labels.MatchNotRegexp {
		if err := r.add(value); err != nil {
			return nil, err
		}
	}
	return labels.NewMatcher(t, name, value)
}

// newRegexps returns an empty list for a request. Expressions are compiled before a query is admitted, and stay in memory while it waits:
// requests with large ones are served one at a time. The caller calls releaseRegexps after the response.
func (c *call) newRegexps() *regexps {
	return &regexps{large: func() error {
		ctx, cancel := c.withTimeout(nil)
		defer cancel()
		if err := c.api.regexps.acquire(ctx); err != nil {
			return err
		}
		c.largeRegexps = true
		return nil
	}}
}

func (c *call) releaseRegexps() {
	if c.largeRegexps {
		c.largeRegexps = false
		c.api.regexps.release()
	}
}

// admitRegexps bounds the regular expressions of a form.
func (c *call) admitRegexps() *Error {
	r := c.newRegexps()
	for _, name := range []string{"query", "match[]", "match_target"} {
		for _, text := range c.form[name] {
			if err := r.addText(text); errors.Is(err, errRegexps) {
				return badData(err)
			} else if err != nil {
				return c.api.classify(err)
			}
		}
	}
	return nil
}
