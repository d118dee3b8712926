package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"hash/fnv"
	"maps"
	"math/rand/v2"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/taredb/tare/internal/parallel"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	var s session
	var kinds string
	flag.IntVar(&s.n, "n", 12, "mutants of each package")
	flag.Uint64Var(&s.seed, "seed", uint64(time.Now().UnixNano()), "chooses the mutants")
	flag.StringVar(&kinds, "kinds", "", "kinds of change, such as 'no continue,nil error'; all if empty")
	flag.StringVar(&s.state, "state", "", "append the result of each package to this `file`, and skip the packages that it has with the same flags")
	flag.DurationVar(&s.own, "own", 2*time.Minute, "time of each package's own tests")
	flag.DurationVar(&s.by, "importers", 40*time.Second, "time of the tests of each package's importers; 0: none run")
	flag.DurationVar(&s.grace, "grace", 5*time.Second, "time of a test with a mutant, besides four times what it takes without")
	flag.IntVar(&s.jobs, "jobs", 2, "packages at a time")
	flag.StringVar(&s.equivalents, "equivalent", "internal/mutants/equivalent.txt", "`file` of mutants that change no behavior")
	flag.Parse()
	s.kinds = strings.FieldsFunc(kinds, func(r rune) bool { return r == ',' })
	survivors, err := s.mutate(ctx, flag.Args())
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
	n                  int
	seed               uint64
	kinds              []string
	state, equivalents string        // files
	own, by, grace     time.Duration // limits
	jobs               int

	dir        string
	module     []*pkg
	equivalent map[string]string // reasons by key
	mu         sync.Mutex
	results    []*result // guarded by mu
}

// An outcome is that of the tests with a mutant.
type outcome string

const (
	killedOwn  outcome = "killed by its package"
	killedBy   outcome = "killed by importers"
	equivalent outcome = "equivalent"
	survived   outcome = "survived"
)

// A result has the outcomes of a package's mutants.
type result struct {
	Package   string
	Flags     string // those that choose mutants
	Mutants   []verdict
	Unrun     int // own tests for which there was no time
	Importers int // importers whose tests did not run to their end
}

type verdict struct {
	Key, File string
	Line      int
	Outcome   outcome
}

func (r *result) count(of outcome) (n int) {
	for _, m := range r.Mutants {
		if m.Outcome == of {
			n++
		}
	}
	return n
}

// flags returns the flags that choose mutants.
func (s *session) flags() string {
	return strings.TrimSuffix(fmt.Sprintf("-seed %d -n %d -kinds %s", s.seed, s.n, strings.Join(s.kinds, ",")), " -kinds ")
}

// mutate runs the command for the packages of patterns, and returns the number of survivors.
func (s *session) mutate(ctx context.Context, patterns []string) (survivors int, err error) {
	if s.equivalent, err = readEquivalent(s.equivalents); err != nil {
		return 0, err
	}
	done, err := readState(s.state)
	if err != nil {
		return 0, err
	}
	if s.dir, err = makeDir("/dev/shm", "mutants"); err != nil { // not Linux
		if s.dir, err = makeDir("", "mutants"); err != nil {
			return 0, err
		}
	}
	defer func() { err = errors.Join(err, os.RemoveAll(s.dir)) }()
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
	fmt.Println(s.flags())
	var failed []error
	err = parallel.ForEach(ctx, s.jobs, packages, func(ctx context.Context, p *pkg) error {
		dir, err := filepath.Rel(mustGetwd(), p.Dir)
		if err != nil || !s.isProduct(p) {
			return err
		}
		r := done[dir+" "+s.flags()]
		if r == nil {
			r, err = s.mutatePackage(ctx, dir, p)
		}
		s.mu.Lock()
		defer s.mu.Unlock()
		if ctx.Err() != nil {
			return ctx.Err() // the package is left for the next run
		}
		if err != nil {
			failed = append(failed, fmt.Errorf("%s: %w", dir, err))
			return nil
		}
		for _, m := range r.Mutants {
			if m.Outcome == survived {
				fmt.Printf("survived: %s:%d\n\t%s\n", m.File, m.Line, m.Key)
				survivors++
			}
		}
		if len(r.Mutants) > 0 {
			s.results = append(s.results, r)
		}
		if done[dir+" "+s.flags()] != nil {
			return nil
		}
		return s.record(r)
	})
	s.printTable()
	return survivors, errors.Join(append(failed, err)...)
}

// isProduct reports whether a package is a program, or imported by other packages than tests.
func (s *session) isProduct(p *pkg) bool {
	return p.Name == "main" || slices.ContainsFunc(s.module, func(q *pkg) bool { return slices.Contains(q.Imports, p.ImportPath) })
}

// mutatePackage tries n mutants of a package.
func (s *session) mutatePackage(ctx context.Context, dir string, p *pkg) (*result, error) {
	r := &result{Package: dir, Flags: s.flags()}
	all, err := mutantsOf(dir, p.GoFiles)
	if err != nil {
		return nil, err
	}
	hash := fnv.New64() // of the name, so that packages have mutants of their own with each seed
	_, _ = hash.Write([]byte(dir))
	all = draw(all, rand.New(rand.NewPCG(s.seed, hash.Sum64())))
	all = slices.DeleteFunc(all, func(m mutant) bool { return len(s.kinds) > 0 && !slices.Contains(s.kinds, m.kind) })
	run := &runner{grace: s.grace}
	if run.dir, err = makeDir(s.dir, ""); err != nil {
		return nil, err
	}
	binary, drawn, err := s.compile(ctx, run, p, dir, all)
	if err != nil {
		return nil, err
	}
	alive := make(map[int]bool)
	for id := 1; id <= run.mutants; id++ {
		alive[id] = true
	}
	own, cancel := context.WithTimeout(ctx, s.own)
	defer cancel()
	if p.hasTests() && len(alive) > 0 {
		if r.Unrun, err = run.kill(own, binary, p, alive); err != nil {
			return nil, err
		}
	}
	rest := maps.Clone(alive)
	if r.Importers, err = s.killByImporters(ctx, run, p, alive); err != nil {
		return nil, err
	}
	id := 0
	for _, m := range drawn {
		v := verdict{Key: m.key(), File: m.file, Line: m.line, Outcome: equivalent}
		if s.equivalent[v.Key] == "" {
			id++
			switch {
			case alive[id]:
				v.Outcome = survived
			case rest[id]:
				v.Outcome = killedBy
			default:
				v.Outcome = killedOwn
			}
		}
		r.Mutants = append(r.Mutants, v)
	}
	return r, os.RemoveAll(run.dir)
}

// compile returns a binary of p's tests with the first n mutants that the compiler accepts, except equivalent ones, and these n mutants.
func (s *session) compile(ctx context.Context, run *runner, p *pkg, dir string, all []mutant) (binary string, drawn []mutant, err error) {
	for {
		drawn = all[:min(s.n, len(all))]
		tried := slices.DeleteFunc(slices.Clone(drawn), func(m mutant) bool { return s.equivalent[m.key()] != "" })
		run.mutants = len(tried)
		if len(tried) == 0 {
			return "", drawn, nil
		}
		sources, err := newSchema(dir, p.Name, run.control(), tried)
		if err == nil {
			run.overlay, err = sources.overlay(run.dir)
		}
		if err != nil {
			return "", nil, err
		}
		binary, printed, err := run.build(ctx, p)
		if err == nil {
			return binary, drawn, nil
		}
		invalid := sources.invalid(printed)
		if len(invalid) == 0 {
			return "", nil, fmt.Errorf("compile the mutants: %w\n%s", err, printed)
		}
		for id := range invalid {
			key := tried[id-1].key()
			all = slices.DeleteFunc(all, func(m mutant) bool { return m.key() == key })
		}
	}
}

// killByImporters runs the tests of p's importers. It returns the number of those for which the time is too short.
func (s *session) killByImporters(ctx context.Context, run *runner, p *pkg, alive map[int]bool) (unrun int, err error) {
	ctx, cancel := context.WithTimeout(ctx, s.by)
	defer cancel()
	importers := s.importers(p)
	for i, q := range importers {
		if len(alive) == 0 {
			return unrun, nil
		}
		binary, printed, err := run.build(ctx, q)
		if ctx.Err() != nil {
			return unrun + len(importers) - i, nil
		}
		if err != nil {
			return 0, fmt.Errorf("compile the tests of %s: %w\n%s", q.ImportPath, err, printed)
		}
		left, err := run.kill(ctx, binary, q, alive)
		if err != nil {
			return 0, err
		}
		if left > 0 {
			unrun++
		}
	}
	return unrun, nil
}

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
func (s *session) record(r *result) error {
	if s.state == "" {
		return nil
	}
	f, err := os.OpenFile(s.state, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	return errors.Join(json.NewEncoder(f).Encode(r), f.Close())
}

// readState returns the results in a file by package and flags; none if there is no such file.
func readState(name string) (map[string]*result, error) {
	done := make(map[string]*result)
	text, err := os.ReadFile(name)
	if name == "" || errors.Is(err, os.ErrNotExist) {
		return done, nil
	}
	if err != nil {
		return nil, err
	}
	for line := range strings.Lines(string(text)) {
		r := new(result)
		if err := json.Unmarshal([]byte(line), r); err != nil {
			return nil, fmt.Errorf("read %s: %w", name, err)
		}
		done[r.Package+" "+r.Flags] = r
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
func (s *session) printTable() {
	slices.SortFunc(s.results, func(a, b *result) int { return strings.Compare(a.Package, b.Package) })
	sum := &result{Package: "all"}
	for _, r := range s.results {
		sum.Mutants = append(sum.Mutants, r.Mutants...)
		sum.Unrun, sum.Importers = sum.Unrun+r.Unrun, sum.Importers+r.Importers
	}
	fmt.Println("\n| package | mutants | equivalent | killed by its tests | by importers | survived | killed, by its tests | own tests, importers without time |\n|---|---:|---:|---:|---:|---:|---:|---:|")
	for _, r := range append(s.results, sum) {
		own, by, same := r.count(killedOwn), r.count(killedBy), r.count(equivalent)
		of := max(len(r.Mutants)-same, 1)
		fmt.Printf("| `%s` | %d | %d | %d | %d | %d | %d %%, %d %% | %d, %d |\n", r.Package, len(r.Mutants), same, own, by, r.count(survived), 100*(own+by)/of, 100*own/of, r.Unrun, r.Importers)
	}
}

func mustGetwd() string {
	dir, err := os.Getwd()
	if err != nil {
		panic(err)
	}
	return dir
}
