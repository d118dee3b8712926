package main

import (
	"maps"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"
)

// module has a function of each form of parameters and each way to notice a mutant.
var module = map[string]string{
	"go.mod": "module example.com/m\n\ngo 1.26\n",
	"p/p.go": `package p

type list[K comparable] struct{ all []K }

var ready bool

func init() { ready = true }

func (l *list[K]) add(_ bool, more ...K) { l.all = append(l.all, more...) }

func (list[K]) kind(int, string) int { return 7 }

func count[K comparable, V any](m map[K]V, _ K) (n int) {
loop:
	for range m {
		switch {
		case n < 2:
			n++
		default:
			break loop
		}
	}
	return n
}

func steps(n int) (i int) {
	for i < n {
		i++
	}
	return i
}

func inChild() int { return 3 }

func array() (a [2]int) {
	a = [2]int{}
	return a
}

func Imported() int { return 4 }

func Unnoticed() int { return 5 }

func Same() int { return 6 }
`,
	"p/p_test.go": `package p

import (
	"os"
	"os/exec"
	"testing"
)

func TestP(t *testing.T) {
	l := new(list[int])
	l.add(true, 1, 2)
	if got := count(map[int]bool{1: true, 2: true, 3: true}, 0); !ready || len(l.all) != 2 || l.kind(1, "") != 7 || got != 2 || array() != [2]int{} {
		t.Error(l, got)
	}
}

func TestSteps(t *testing.T) {
	if steps(3) != 3 {
		t.Error("not 3")
	}
	if Unnoticed() == 0 {
		t.Error("0")
	}
}

func TestChild(t *testing.T) {
	if os.Getenv("CHILD") != "" {
		os.Exit(inChild())
	}
	cmd := exec.Command(os.Args[0], "-test.run=^TestChild$")
	cmd.Env = []string{"CHILD=1"}
	if _ = cmd.Run(); cmd.ProcessState.ExitCode() != 3 {
		t.Error(cmd.ProcessState)
	}
}

func TestFails(t *testing.T) { t.Fatal(Imported(), Same()) }
`,
	"q/q.go": "package q\n\nimport (\n\t\"example.com/m/p\"\n\t\"example.com/m/r\"\n)\n\nfunc F() int { return 9 - r.NoTests() + p.Imported() + p.Unnoticed() + p.Same() }\n",
	"r/r.go": "package r\n\nfunc NoTests() int {\n\tvar a [1]int\n\ta = [1]int{}\n\treturn len(a) + 8\n}\n",
	"q/q_test.go": `package q

import (
	"testing"

	"example.com/m/p"
)

func TestF(t *testing.T) {
	if F() < 15 || p.Imported() != 4 {
		t.Error("less")
	}
}
`,
	"equivalent.txt": "# keys\np/p.go Same: number: 6 => 7\tthe same\n",
}

// TestSession compares what becomes of all mutants of a module's package with a list, then resumes, and runs one kind alone.
func TestSession(t *testing.T) {
	if testing.Short() {
		t.Skip("it compiles for a minute")
	}
	dir := t.TempDir()
	for name, text := range module {
		if err := os.MkdirAll(filepath.Join(dir, filepath.Dir(name)), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	t.Chdir(dir)
	t.Setenv("GOFLAGS", "-mod=mod")
	run := func(n int, kinds ...string) map[string]outcome {
		s := session{n: n, seed: 1, kinds: kinds, state: "state", own: 10 * time.Minute, by: 10 * time.Minute, grace: time.Second, jobs: 2, equivalents: "equivalent.txt"}
		survivors, err := s.mutate(t.Context(), []string{"./p", "./r"})
		if err != nil {
			t.Fatal(err)
		}
		got := make(map[string]outcome)
		for _, r := range s.results {
			for _, m := range r.Mutants {
				got[m.Key] = m.Outcome
				if m.Outcome == survived {
					survivors--
				}
			}
			if r.Unrun != 0 || r.Importers != 0 {
				t.Errorf("not all tests have run: %+v", r)
			}
		}
		if len(s.results) != 2 || survivors != 0 {
			t.Errorf("%d results, %d other survivors", len(s.results), survivors)
		}
		return got
	}
	want := map[string]outcome{ // without those that do not compile: no break in count; 2 => 3 in array, 1 => 2 in NoTests
		"r/r.go NoTests: no assignment: a = [1]int{} => {}":                    survived,
		"r/r.go NoTests: number: 8 => 9":                                       killedBy,
		"r/r.go NoTests: operator: + => -":                                     survived,
		"p/p.go init: no assignment: ready = true => {}":                       killedOwn,
		"p/p.go list.add: no assignment: l.all = append(l.all, more...) => {}": killedOwn,
		"p/p.go list.kind: number: 7 => 8":                                     killedOwn,
		"p/p.go count: number: 2 => 3":                                         killedOwn,
		"p/p.go count: operator: < => <=":                                      killedOwn,
		"p/p.go count: operator: < => >":                                       killedOwn,
		"p/p.go count: no statement: n++ => {}":                                killedOwn,
		"p/p.go steps: operator: < => <=":                                      killedOwn,
		"p/p.go steps: operator: < => >":                                       killedOwn,
		"p/p.go steps: no statement: i++ => {}":                                killedOwn, // it does not end
		"p/p.go inChild: number: 3 => 4":                                       killedOwn,
		"p/p.go array: no assignment: a = [2]int{} => {}":                      survived,
		"p/p.go Imported: number: 4 => 5":                                      killedBy,
		"p/p.go Unnoticed: number: 5 => 6":                                     survived,
		"p/p.go Same: number: 6 => 7":                                          equivalent,
	}
	got := run(1000)
	if !maps.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
	if err := os.Remove("p/p_test.go"); err != nil { // a package that is done is not run again
		t.Fatal(err)
	}
	if again := run(1000); !maps.Equal(again, want) {
		t.Errorf("resumed: %v, want %v", again, want)
	}
	if got, want := slices.Collect(maps.Values(run(1, "no assignment"))), []outcome{survived, survived}; !slices.Equal(got, want) { // with other flags it is
		t.Errorf("one kind: %v, want %v", got, want)
	}
}
