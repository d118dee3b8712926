package promapi

import (
	"context"
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

	unicodeSteps = 256     // of a class as \pL: it has up to 700 ranges
	foldedFactor = 5       // of that in expressions that ignore case
	foldedRunes  = 16      // of a range that take a step there: Go folds them one by one
	mostFolded   = 0x1e943 // the last letter that has another case
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

// addText adds the regular expressions of a text in PromQL: those of matchers, and all strings after the name of label_replace. Errors
// of the text itself are left to the parser.
func (r *regexps) addText(input string) error {
	const replace = "label_replace"
	if !strings.Contains(input, "~") && !strings.Contains(input, replace) {
		return nil
	}
	lexer := parser.Lex(input)
	pattern, replaces := false, false
	for {
		var item parser.Item
		lexer.NextItem(&item)
		switch {
		case item.Typ == parser.EOF || item.Typ == parser.ERROR:
			return nil
		case item.Typ == parser.EQL_REGEX || item.Typ == parser.NEQ_REGEX:
			pattern = true
			continue
		case item.Typ == parser.IDENTIFIER && item.Val == replace:
			replaces = true
		case (pattern || replaces) && item.Typ == parser.STRING:
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
	folds := foldsCase(pattern)
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
			add(1 + unicodeClass(pattern[i:], folds))
			i++
		case '[':
			end := classEnd(pattern, i)
			add(classSteps(pattern[i:end], folds))
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

// foldsCase reports whether an expression has a part that ignores case.
func foldsCase(pattern string) bool {
	for {
		_, rest, found := strings.Cut(pattern, "(?")
		if !found {
			return false
		}
		flags := rest[:len(rest)-len(strings.TrimLeft(rest, "imsU"))]
		if strings.Contains(flags, "i") {
			return true
		}
		pattern = rest
	}
}

// unicodeClass returns the steps of the class of Unicode with which a text begins; 0: it begins with another escape sequence.
func unicodeClass(text string, folds bool) int {
	switch {
	case len(text) < 2 || text[1] != 'p' && text[1] != 'P':
		return 0
	case folds:
		return unicodeSteps * foldedFactor
	}
	return unicodeSteps
}

// classSteps returns the steps of a character class, without its closing bracket.
func classSteps(class string, folds bool) int {
	n := 1 + len(class)/4
	for i := 1; i < len(class) && n < maxRegexpSteps; i++ {
		switch {
		case class[i] == '\\':
			n += unicodeClass(class[i:], folds)
			i++
		case folds && class[i] == '-' && i+1 < len(class):
			first, _ := utf8.DecodeLastRuneInString(class[:i]) // of an escape sequence: a letter before the last of ASCII, like its rune or after it
			last, _ := utf8.DecodeRuneInString(class[i+1:])
			if last == '\\' {
				last = mostFolded
			}
			n += max(0, int(min(last, mostFolded)-first)/foldedRunes)
		}
	}
	return n
}

// maxClassName is longer than each name of a class of POSIX.
const maxClassName = 16

// classEnd returns where the character class that begins at a byte ends.
func classEnd(pattern string, at int) int {
	for i := at + 1; i < len(pattern); i++ {
		switch {
		case pattern[i] == '\\':
			i++
		case strings.HasPrefix(pattern[i:], "[:"):
			if n := strings.Index(pattern[i:min(len(pattern), i+maxClassName)], ":]"); n > 0 {
				i += n + 1
			}
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

// A RegexpGate bounds the regular expressions of requests other than those of an API: requests with large ones are served one at a time,
// also because they are compiled before a query is admitted. It is safe for concurrent use.
type RegexpGate struct{ gate gate }

// NewRegexpGate returns a gate in front of which at most some requests wait.
func NewRegexpGate(waiting int) *RegexpGate {
	return &RegexpGate{gate{maxRunning: 1, maxQueued: waiting}}
}

// Matchers makes the matchers of one request. It must not be used concurrently.
type Matchers struct {
	regexps regexps
	gate    *gate
	large   bool
}

// Matchers returns the matchers of a request. The caller calls Release after its response. A matcher with a large expression waits until
// the context is done.
func (g *RegexpGate) Matchers(ctx context.Context) *Matchers {
	m := &Matchers{gate: &g.gate}
	m.regexps.large = func() error {
		if err := m.gate.acquire(ctx); err != nil {
			return err
		}
		m.large = true
		return nil
	}
	return m
}

// New is NewMatcher. It also rejects a regular expression if those of the request together are too large, and returns ErrTooMany if too
// many requests wait.
func (m *Matchers) New(t labels.MatchType, name, value string) (*labels.Matcher, error) {
	return m.regexps.matcher(t, name, value)
}

// Release has the next request with a large expression served.
func (m *Matchers) Release() {
	if m != nil && m.large {
		m.large = false
		m.gate.release()
	}
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
