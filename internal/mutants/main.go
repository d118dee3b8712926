package main

import (
	"bufio"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	survivors, err := mutate(ctx)
	switch {
	case err != nil:
		fmt.Fprintln(os.Stderr, "mutants:", err)
		os.Exit(2)
	case survivors > 0:
		os.Exit(1)
	}
}

// A session is one run of the command.
type session struct {
	n          int
	seed       uint64
	state      string
	own        bool // run the package's own tests only
	module     []*pkg
	equivalent map[string]string // reasons by key
	done       map[string]outcome
	runner     runner
	reaches    map[string]*reach // by import path
}

// mutate runs the command and returns the number of survivors.
func mutate(ctx context.Context) (survivors int, err error) {
	var s session
	var equivalents string
	flag.IntVar(&s.n, "n", 12, "mutants of each package")
	flag.Uint64Var(&s.seed, "seed", uint64(time.Now().UnixNano()), "chooses the mutants")
	flag.StringVar(&s.state, "state", "", "append results to this `file`, and skip the mutants that it has")
	flag.BoolVar(&s.own, "own", false, "run each package's own tests only; a later run without this continues with those of importers")
	flag.DurationVar(&s.runner.limit, "limit", 20*time.Second, "time of tests, beside three times what they take without a mutant")
	flag.StringVar(&equivalents, "equivalent", "internal/mutants/equivalent.txt", "`file` of mutants that change no behavior")
	flag.Parse()
	if s.equivalent, err = readEquivalent(equivalents); err != nil {
		return 0, err
	}
	if s.done, err = readState(s.state); err != nil {
		return 0, err
	}
	if s.runner.dir, err = os.MkdirTemp("", "mutants"); err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(s.runner.dir)) }()
	patterns := flag.Args()
	if len(patterns) == 0 {
		patterns = []string{"./..."}
	}
	packages, err := listPackages(ctx, patterns...)
	if err == nil {
		s.module, err = listPackages(ctx, "./...")
	}
	if err != nil {
		return 0, err
	}
	s.reaches = make(map[string]*reach)
	if s.state != "" {
		s.runner.reaches = s.state + ".reach"
	}
	fmt.Printf("seed %d\n", s.seed)
	var rows []row
	for _, p := range packages {
		r, err := s.mutatePackage(ctx, p)
		if err != nil {
			return survivors, err
		}
		if r.total() > 0 {
			rows = append(rows, r)
			survivors += r.count[survived]
		}
	}
	printTable(rows)
	return survivors, nil
}

// A row is the result for one package.
type row struct {
	name  string
	count map[outcome]int
}

func (r *row) total() (n int) {
	for _, c := range r.count {
		n += c
	}
	return n
}

// mutatePackage tries n mutants of a package.
func (s *session) mutatePackage(ctx context.Context, p *pkg) (row, error) {
	dir, err := filepath.Rel(mustGetwd(), p.Dir)
	if err != nil {
		return row{}, err
	}
	r := row{name: dir, count: make(map[outcome]int)}
	all, err := mutantsOf(dir, p.GoFiles)
	if err != nil || len(all) == 0 {
		return r, err
	}
	hash := fnv.New64() // of the name, so that packages have mutants of their own with each seed
	_, _ = hash.Write([]byte(dir))
	all = draw(all, rand.New(rand.NewPCG(s.seed, hash.Sum64())))
	for i := range all {
		if r.total() == s.n {
			break
		}
		m := &all[i]
		result, known := s.done[m.key()]
		if !known && s.equivalent[m.key()] == "" {
			if result, err = s.tryOwn(ctx, m, p); err != nil {
				return r, err
			}
		}
		if result == survivedOwn && !s.own && s.equivalent[m.key()] == "" {
			if result, err = s.tryImporters(ctx, m, p); err != nil {
				return r, err
			}
		}
		switch {
		case result == invalid:
			continue
		case s.equivalent[m.key()] != "":
			result = equivalent
		case result == survivedOwn:
			result = survived
		}
		r.count[result]++
		if result == survived {
			fmt.Printf("survived: %s:%d\n\t%s\n", m.file, m.line, m.key())
		}
	}
	return r, nil
}

// tryOwn runs the package's own tests that reach a mutant, and records the result.
func (s *session) tryOwn(ctx context.Context, m *mutant, p *pkg) (outcome, error) {
	tests, err := s.reaching(ctx, m, p)
	if err != nil {
		return "", err
	}
	got := passed
	if len(tests) > 0 {
		if got, err = s.runner.try(ctx, m, p, tests); err != nil {
			return "", err
		}
	} else if ok, err := s.runner.compiles(ctx, m, p); err != nil {
		return "", err
	} else if !ok {
		got = notBuilt
	}
	o := map[result]outcome{passed: survivedOwn, failed: killedOwn, notBuilt: invalid}[got]
	return o, s.record(m, o)
}

// tryImporters runs the tests of importers that reach a mutant, which its package's tests do not notice, and records the result.
func (s *session) tryImporters(ctx context.Context, m *mutant, p *pkg) (outcome, error) {
	for _, q := range s.importers(p) {
		tests, err := s.reaching(ctx, m, q)
		if err != nil {
			return "", err
		}
		if len(tests) == 0 {
			continue
		}
		result, err := s.runner.try(ctx, m, q, tests)
		if err != nil {
			return "", err
		}
		if result == failed {
			return killedBy, s.record(m, killedBy)
		}
	}
	return survived, s.record(m, survived)
}

// reaching returns the tests of a package that reach a mutant.
func (s *session) reaching(ctx context.Context, m *mutant, p *pkg) ([]reachingTest, error) {
	r := s.reaches[p.ImportPath]
	if r == nil && p.hasTests() {
		var err error
		if r, err = s.runner.reachOf(ctx, p, modulePath); err != nil {
			return nil, err
		}
		s.reaches[p.ImportPath] = r
	}
	if r == nil {
		return nil, nil
	}
	return r.of(filepath.ToSlash(m.file), m.line), nil
}

// modulePath is the path of the module, in whose root the command runs.
const modulePath = "github.com/taredb/tare"

// importers returns the packages with tests that import p, other than p, those with the shortest tests first.
func (s *session) importers(p *pkg) (importers []*pkg) {
	for _, q := range s.module {
		imports := slices.Concat(q.Imports, q.TestImports, q.XTestImports)
		if q.ImportPath != p.ImportPath && q.hasTests() && slices.Contains(imports, p.ImportPath) {
			importers = append(importers, q)
		}
	}
	slices.SortStableFunc(importers, func(a, b *pkg) int { return cmp.Compare(a.testBytes(), b.testBytes()) })
	return importers
}

// record appends a result to the state.
func (s *session) record(m *mutant, result outcome) error {
	s.done[m.key()] = result
	if s.state == "" {
		return nil
	}
	f, err := os.OpenFile(s.state, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	return errors.Join(json.NewEncoder(f).Encode([2]string{m.key(), string(result)}), f.Close())
}

// readState returns the results in a file; none if there is no such file.
func readState(name string) (map[string]outcome, error) {
	done := make(map[string]outcome)
	f, err := os.Open(name)
	if name == "" || errors.Is(err, os.ErrNotExist) {
		return done, nil
	}
	if err != nil {
		return nil, err
	}
	defer f.Close()
	for lines := bufio.NewScanner(f); lines.Scan(); {
		var entry [2]string
		if err := json.Unmarshal(lines.Bytes(), &entry); err != nil {
			return nil, fmt.Errorf("read %s: %w", name, err)
		}
		done[entry[0]] = outcome(entry[1])
	}
	return done, nil
}

// readEquivalent returns the reasons of a file with lines of a key, a tab and a reason.
func readEquivalent(name string) (map[string]string, error) {
	text, err := os.ReadFile(name)
	if err != nil {
		return nil, err
	}
	reasons := make(map[string]string)
	for line := range strings.Lines(string(text)) {
		if line = strings.TrimSuffix(line, "\n"); line == "" || line[0] == '#' {
			continue
		}
		key, reason, ok := strings.Cut(line, "\t")
		if !ok || reason == "" {
			return nil, fmt.Errorf("%s: %q has no tab and reason", name, line)
		}
		reasons[key] = reason
	}
	return reasons, nil
}

// printTable prints the results of packages, and their sum.
func printTable(rows []row) {
	sum := row{name: "all", count: make(map[outcome]int)}
	for _, r := range rows {
		for o, n := range r.count {
			sum.count[o] += n
		}
	}
	fmt.Println("\n| package | mutants | killed by its tests | by importers | equivalent | survived |\n|---|---|---|---|---|---|")
	for _, r := range append(rows, sum) {
		fmt.Printf("| %s | %d | %d | %d | %d | %d |\n", r.name, r.total(), r.count[killedOwn], r.count[killedBy], r.count[equivalent], r.count[survived])
	}
}

func mustGetwd() string {
	dir, err := os.Getwd()
	if err != nil {
		panic(err)
	}
	return dir
}
