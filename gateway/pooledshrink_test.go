package gateway_test

import (
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/taredb/tare/internal/testmysql"
	"github.com/taredb/tare/internal/testseed"
	"github.com/taredb/tare/mysql/mysqlwire"
)

var (
	poolSteps = flag.Int("pool-steps", 100, "steps of TestPooledRandomly per server, kind and seed")
	poolSeeds = flag.String("pool-seeds", "", "first and last seed of TestPooledRandomly, as 1-40; empty: one at random")
)

// TestPooledRandomly executes random sequences of commands directly and through shared connections, by sixteen clients on two of them,
// and compares the responses and the state of each session. The steps before a difference are reduced to those that cause it.
func TestPooledRandomly(t *testing.T) {
	bothServers(t, func(t *testing.T, s *testmysql.Server) {
		first, last := seedRange(t)
		variables, commands := variableSteps(t, s), commandSteps(t)
		for seed := first; seed <= last; seed++ {
			for i, kind := range sharedKinds {
				t.Run(fmt.Sprintf("%s/%d", kind.name, seed), func(t *testing.T) {
					t.Parallel()
					g := &stepSource{rnd: rand.New(rand.NewPCG(seed, uint64(i))), clients: randomClients, variables: variables, commands: commands}
					pooledRandomly(t, s, s.Addr, kind, *poolSteps, g)
				})
			}
		}
	})
}

func seedRange(t *testing.T) (first, last uint64) {
	if *poolSeeds == "" {
		seed := testseed.New(t)
		return seed, seed
	}
	a, b, _ := strings.Cut(*poolSeeds, "-")
	first, err := strconv.ParseUint(a, 10, 64)
	must(t, err)
	last, err = strconv.ParseUint(b, 10, 64)
	must(t, err)
	return first, last
}

// maxFailures is how many differences end a run.
const maxFailures = 6

func pooledRandomly(t *testing.T, s *testmysql.Server, backend string, kind sharedKind, steps int, g *stepSource) {
	all := make([]int, randomClients)
	for k := range all {
		all[k] = k
	}
	p := startRun(t, s, backend, kind, all)
	var history []randomStep
	for failures := 0; len(history) < steps; {
		step := g.next()
		history = append(history, step)
		difference := p.step(t, step)
		if difference == "" {
			continue
		}
		failures++
		t.Errorf("step %d, client %d: %s", len(history), step.client, difference)
		if failures == 1 {
			t.Log(explain(t, s, backend, kind, history))
		}
		if failures == maxFailures {
			t.FailNow()
		}
		history = append(history, randomStep{step.client, ":redial"})
		p.step(t, history[len(history)-1])
	}
	t.Logf("%d steps, %d refused, %d states compared; opened %d, changed %d", steps, p.refusals, p.compared,
		p.r.metric(t, "tare_pool_opened_total", testmysql.AppUser), p.r.metric(t, "tare_pool_changes_total", testmysql.AppUser))
}

// shrinkRuns bounds how often steps are executed again to reduce them.
const shrinkRuns = 250

// explain reduces steps with a difference.
func explain(t *testing.T, s *testmysql.Server, backend string, kind sharedKind, history []randomStep) string {
	small, ok := reduceSteps(history, shrinkRuns, func(steps []randomStep) bool { return replay(t, s, backend, kind, steps) != "" })
	if !ok {
		var last []randomStep
		for _, s := range history {
			if s.client == history[len(history)-1].client {
				last = append(last, s)
			}
		}
		return "the same steps again have no difference; the last ones of the client:\n" + scriptOf(last[max(0, len(last)-30):])
	}
	return fmt.Sprintf("reduced to %d steps, to be saved as gateway/testdata/pooled/NAME.txt:\n# kind %s\n%s", len(small), kind.name, scriptOf(small))
}

// replay executes steps by clients that have done nothing else, and returns the first difference.
func replay(t *testing.T, s *testmysql.Server, backend string, kind sharedKind, steps []randomStep) (difference string) {
	t.Run("replay", func(t *testing.T) {
		p := startRun(t, s, backend, kind, clientsOf(steps))
		for _, step := range steps {
			if difference = p.step(t, step); difference != "" {
				difference = fmt.Sprintf("%v: %s", step, difference)
				return
			}
		}
	})
	return difference
}

// reduceSteps returns fewer and simpler steps for which fails reports true as for the given ones, by delta debugging: it leaves out the
// first steps, whole clients and runs of steps, while the rest fails, and then simplifies those left. It calls fails at most most
// times. ok is false if the given steps do not fail.
func reduceSteps(steps []randomStep, most int, fails func([]randomStep) bool) (reduced []randomStep, ok bool) {
	try := func(c []randomStep) bool {
		if most == 0 || len(c) == 0 {
			return false
		}
		most--
		if !fails(c) {
			return false
		}
		steps = slices.Clone(c)
		return true
	}
	for n := 16; !ok; n *= 4 {
		ok = try(steps[max(0, len(steps)-n):])
		if n >= len(steps) {
			break
		}
	}
	if !ok {
		return nil, false
	}
	for _, k := range clientsOf(steps) {
		try(slices.DeleteFunc(slices.Clone(steps), func(s randomStep) bool { return s.client == k }))
	}
	for size := len(steps) / 2; size > 0; {
		before := len(steps)
		for at := 0; at < len(steps); {
			if !try(slices.Delete(slices.Clone(steps), at, min(at+size, len(steps)))) {
				at += size
			}
		}
		if size == 1 && len(steps) == before {
			break
		}
		size = max(1, size/2)
	}
	for i := range steps {
		for _, text := range simplerTexts(steps[i].text) {
			c := slices.Clone(steps)
			if c[i].text = text; try(c) {
				break
			}
		}
	}
	return steps, true
}

var numberWord = regexp.MustCompile(`\b[0-9]+\b`)

// simplerTexts returns texts of steps that are simpler than one, the simplest first.
func simplerTexts(text string) (all []string) {
	add := func(s string) {
		if s != text {
			all = append(all, s)
		}
	}
	if !strings.HasPrefix(text, ":") {
		add("do 1")
		add("select 1")
	}
	if i := strings.IndexByte(text, ','); i > 0 && strings.HasPrefix(text, "set ") {
		add(text[:i])
	}
	for _, prefix := range []string{":prepared ", ":quiet "} {
		add(strings.TrimPrefix(text, prefix))
	}
	if !strings.HasPrefix(text, ":") {
		add(numberWord.ReplaceAllString(text, "1"))
	}
	return all
}

// TestReduceSteps reduces steps with causes that are known.
func TestReduceSteps(t *testing.T) {
	noise := func(n int) (all []randomStep) {
		for i := range n {
			all = append(all, randomStep{i % 16, fmt.Sprintf("insert into t%d (v) values (%d)", i%16, i)})
		}
		return all
	}
	has := func(steps []randomStep, client int, text string) int {
		return slices.IndexFunc(steps, func(s randomStep) bool { return s.client == client && strings.HasPrefix(s.text, text) })
	}
	two := func(steps []randomStep) bool { // of one client before another
		a, b := has(steps, 3, "set sql_mode"), has(steps, 5, "select 'a'")
		return a >= 0 && b > a
	}
	for name, c := range map[string]struct {
		steps []randomStep
		fails func([]randomStep) bool
		want  string
	}{
		"two steps far apart": {
			slices.Concat(noise(40), []randomStep{{3, "set sql_mode = '', @x = 4"}}, noise(1000), []randomStep{{5, ":prepared select 'a', 17"}, {5, "select 'a', 17"}}), two,
			"3: set sql_mode = ''\n5: select 'a', 1\n",
		},
		"a prepared statement": {
			slices.Concat(noise(3), []randomStep{{2, ":prepared select 1234"}}), func(s []randomStep) bool {
				return slices.ContainsFunc(s, func(s randomStep) bool { return strings.Contains(s.text, "select 1234") })
			}, "2: select 1234\n",
		},
		"all steps of a client": {
			noise(160), func(s []randomStep) bool {
				n := 0
				for _, s := range s {
					n += map[bool]int{true: 1}[s.client == 7]
				}
				return n >= 3
			}, "7: do 1\n7: do 1\n7: do 1\n",
		},
		"nothing":       {noise(100), func([]randomStep) bool { return false }, ""},
		"the last step": {append(noise(16), randomStep{1, ":state"}), func(s []randomStep) bool { return s[len(s)-1].text == ":state" }, "1: :state\n"},
	} {
		runs := 0
		got, ok := reduceSteps(c.steps, 300, func(s []randomStep) bool {
			runs++
			return c.fails(s)
		})
		if scriptOf(got) != c.want || ok != (c.want != "") || runs > 300 {
			t.Errorf("%s: %v, after %d runs:\n%swant\n%s", name, ok, runs, scriptOf(got), c.want)
		}
		again, err := parseScript("# kind shared\n" + scriptOf(got))
		if err != nil || !slices.Equal(again, got) {
			t.Errorf("%s: parsed %v, %v", name, again, err)
		}
	}
	runs := 0
	reduceSteps(noise(500), 20, func([]randomStep) bool { runs++; return true })
	if runs > 20 {
		t.Errorf("%d runs", runs)
	}
}

// TestPooledReplay executes the steps of testdata/pooled, each of which a defect had a difference for.
func TestPooledReplay(t *testing.T) {
	files, err := filepath.Glob("testdata/pooled/*.txt")
	must(t, err)
	bothServers(t, func(t *testing.T, s *testmysql.Server) {
		t.Parallel()
		for _, file := range files {
			script, err := os.ReadFile(file)
			must(t, err)
			steps, err := parseScript(string(script))
			must(t, err)
			for _, kind := range sharedKinds {
				if !strings.Contains(string(script), "# kind "+kind.name+"\n") {
					continue
				}
				if difference := replay(t, s, s.Addr, kind, steps); difference != "" {
					t.Errorf("%s: %s", file, difference)
				}
			}
		}
	})
}

// TestPooledShrinks has a backend that does not reset sessions, and reduces the steps after which that is seen to a few.
func TestPooledShrinks(t *testing.T) {
	s := testmysql.Start(t)
	backend := withoutResets(t, s.Addr)
	all := make([]int, randomClients)
	for k := range all {
		all[k] = k
	}
	g := &stepSource{rnd: rand.New(rand.NewPCG(1, 2)), clients: randomClients}
	kind := sharedKinds[2]
	var history []randomStep
	t.Run("run", func(t *testing.T) {
		p := startRun(t, s, backend, kind, all)
		for difference := ""; difference == "" && len(history) < 1000; {
			history = append(history, g.next())
			difference = p.step(t, history[len(history)-1])
		}
	})
	runs := 0
	small, ok := reduceSteps(history, shrinkRuns, func(steps []randomStep) bool {
		runs++
		return replay(t, s, backend, kind, steps) != ""
	})
	t.Logf("%d steps, after %d runs:\n%s", len(history), runs, scriptOf(small))
	if !ok || len(small) > 6 {
		t.Errorf("%d steps of %d are left: %v", len(small), len(history), ok)
	}
}

// withoutResets relays connections to a server, and has each COM_RESET_CONNECTION be a COM_PING.
func withoutResets(t *testing.T, server string) (addr string) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	t.Cleanup(func() { l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			b, err := net.Dial("tcp", server)
			if err != nil {
				c.Close()
				continue
			}
			go func() {
				_, _ = io.Copy(c, b)
				c.Close()
			}()
			go func() {
				defer b.Close()
				header := make([]byte, 4)
				for {
					if _, err := io.ReadFull(c, header); err != nil {
						return
					}
					n := int(header[0]) | int(header[1])<<8 | int(header[2])<<16
					packet := append(slices.Clone(header), make([]byte, n)...)
					if _, err := io.ReadFull(c, packet[4:]); err != nil {
						return
					}
					if header[3] == 0 && n == 1 && packet[4] == byte(mysqlwire.ComResetConnection) {
						packet[4] = byte(mysqlwire.ComPing)
					}
					if _, err := b.Write(packet); err != nil {
						return
					}
				}
			}()
		}
	}()
	return l.Addr().String()
}
