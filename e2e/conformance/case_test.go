//go:build e2e

package conformance

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// protocols are the ways in which the test programs send statements.
var protocols = []string{"plain", "ps", "cursor", "sp", "view"}

// A testCase is one test with one protocol and one profile.
type testCase struct {
	server   string
	test     *suiteTest
	protocol string
	profile  string
}

func (c *testCase) String() string {
	return strings.Join([]string{c.server, c.test.suite, c.test.name, c.protocol, c.profile}, "/")
}

// spread returns a number that spreads cases over shards and profiles, the same in every run.
func spread(parts ...string) uint64 {
	h := fnv.New64a()
	h.Write([]byte(strings.Join(parts, "/")))
	n := h.Sum64()
	return n ^ n>>29
}

// A selection says which cases run.
type selection struct {
	protocols    []string // empty: plain, and one other that the test chooses by its name
	profiles     []string // of which each case has one
	sample       int      // 0: all
	seed         uint64
	shard, total uint64
}

// cases returns the cases of a server's tests, and counts those that the rules leave out.
func (s *selection) cases(server string, tests []*suiteTest, left map[string]int) (list []*testCase) {
	for _, t := range tests {
		if t.left != "" {
			left[t.left]++
			continue
		}
		chosen := s.protocols
		if len(chosen) == 0 {
			chosen = []string{"plain", protocols[1+spread(server, t.suite, t.name)%uint64(len(protocols)-1)]}
		}
		for _, protocol := range chosen {
			n := spread(server, t.suite, t.name, protocol)
			if n%s.total == s.shard {
				list = append(list, &testCase{server, t, protocol, s.profiles[n/s.total%uint64(len(s.profiles))]})
			}
		}
	}
	if s.sample > 0 && s.sample < len(list) {
		rand.New(rand.NewPCG(s.seed, spread(server))).Shuffle(len(list), func(i, j int) { list[i], list[j] = list[j], list[i] })
		list = list[:s.sample]
	}
	// Tests with the same options share servers.
	slices.SortStableFunc(list, func(a, b *testCase) int {
		return strings.Compare(strings.Join(a.test.opts, " "), strings.Join(b.test.opts, " "))
	})
	return list
}

// A verdict is the result of a case, one line of the journal.
type verdict struct {
	Case     string   `json:"case"`
	Server   string   `json:"server"`
	Suite    string   `json:"suite"`
	Protocol string   `json:"protocol"`
	Verdict  string   `json:"verdict"`            // equal, different, excluded
	Reason   string   `json:"reason,omitempty"`   // of an exclusion
	Accepted []string `json:"accepted,omitempty"` // reasons of differences
	Exit     int      `json:"exit"`               // code of the direct leg: 1 means that the test ends early, on both
	Seconds  float64  `json:"seconds"`

	Cases     counts   `json:"cases,omitzero"`      // of a suite of clients
	Different string   `json:"different,omitempty"` // the cases' results
	Unstable  []string `json:"unstable,omitempty"`  // cases that are excluded, with the reason
}

const (
	equal     = "equal"
	different = "different"
	excluded  = "excluded"
)

// moreDirect are the direct legs that follow a difference, to find nondeterminism.
const moreDirect = 4

// judge runs a case's legs.
func (r *rig) judge(ctx context.Context, c *testCase, keep string) (*verdict, error) {
	v := &verdict{Case: c.String(), Server: c.server, Suite: c.test.suite, Protocol: c.protocol, Verdict: equal}
	started := time.Now()
	defer func() { v.Seconds = float64(time.Since(started).Milliseconds()) / 1000 }()
	exclude := func(format string, a ...any) { v.Verdict, v.Reason = excluded, fmt.Sprintf(format, a...) }
	direct, err := r.leg(ctx, c, "", *flagLimit)
	switch {
	case errors.Is(err, errServerOptions) && len(c.test.opts) > 0:
		exclude("the server does not start with the test's options")
		return v, nil
	case err != nil:
		return v, err
	}
	v.Exit = direct.code
	switch {
	case direct.code == exitSkipped:
		exclude("does not apply: %s", direct.reason())
		return v, nil
	case direct.limit != "":
		exclude("reaches the limit of %s directly", direct.limit)
		return v, nil
	}
	through, err := r.leg(ctx, c, c.profile, *flagLimit+3*direct.took)
	if err != nil {
		return v, err
	}
	kept := strings.ReplaceAll(c.String(), "/", "-")
	ok := false
	if v.Accepted, ok = same(c.test, direct, through); ok && isPooled(c.profile) {
		if says := pooledStale(c.String()); says != "" {
			v.Verdict, v.Reason = different, "equal, although a difference is listed: "+says
			return v, nil
		}
	} else if isPooled(c.profile) {
		if reason := pooledReason(c.String(), direct.text(), through.text()); reason != "" {
			v.Accepted = append(v.Accepted, reason)
			return v, nil
		}
	}
	if ok {
		if direct.code != 0 {
			err = save(filepath.Join(keep, "early", kept), direct, through)
		}
		return v, err
	}
	for range moreDirect {
		again, err := r.leg(ctx, c, "", *flagLimit)
		if err != nil {
			return v, err
		}
		if v.Accepted, ok = same(c.test, again, through); ok {
			return v, nil
		}
		if !again.equal(direct) {
			exclude("nondeterministic: direct runs differ")
			return v, save(filepath.Join(keep, "nondeterministic", kept), direct, again)
		}
	}
	v.Verdict = different
	return v, save(filepath.Join(keep, "different", kept), direct, through)
}

// leg runs a case once, on a server in the state of a fresh one: directly, or through the gateway of a profile.
func (r *rig) leg(ctx context.Context, c *testCase, profile string, limit time.Duration) (*leg, error) {
	if err := r.ready(ctx, c.test.opts); err != nil {
		return nil, err
	}
	port := r.server.Port()
	if profile != "" {
		g, err := r.through(ctx, profile)
		if err != nil {
			return nil, err
		}
		port = g.port
	}
	l, err := r.run(ctx, c, port, limit)
	if err != nil {
		return nil, err
	}
	if crashed, err := r.settle(ctx); err != nil {
		return nil, err
	} else if crashed {
		l.output = append(l.output, "\n(the server has exited)\n"...)
	}
	l.port = port
	return l, nil
}

// save keeps two results of a case: of the direct leg and of another.
func save(dir string, direct, other *leg) error {
	err := os.MkdirAll(dir, 0o755)
	for name, l := range map[string]*leg{"direct": direct, "other": other} {
		text := fmt.Sprintf("%s\n--- output, %s, limit %q, %v\n%s\n", l.recorded, l.ended, l.limit, l.took, l.output)
		err = errors.Join(err, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644))
	}
	return err
}
