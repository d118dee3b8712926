package web

import (
	"log/slog"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"

	"github.com/taredb/tare/internal/web/memory"
)

// TestWeigher takes more measurements than are stored, and checks the differences.
func TestWeigher(t *testing.T) {
	var statements uint64
	begin := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	s := newWeigher(func() uint64 { return statements }, begin)
	if n := len(s.measure(begin)); n != 1 {
		t.Fatalf("%d looks, want 1", n)
	}
	if n := len(s.measure(begin.Add(weightGap / 2))); n != 1 {
		t.Errorf("%d looks after half a second, want the one before", n)
	}
	for i := 1; i <= 2*weightSamples; i++ {
		statements += 100
		s.measure(begin.Add(time.Duration(i) * time.Second))
	}
	looks := s.measure(begin.Add(2 * weightSamples * time.Second))
	if len(looks) != weightSamples {
		t.Errorf("%d looks, want %d", len(looks), weightSamples)
	}
	last, before := looks[len(looks)-1], looks[len(looks)-11]
	d := last.since(&before)
	if d.Seconds != 10 || d.Statements != 1000 || d.Rate != 100 {
		t.Errorf("between two looks: %+v", d)
	}
	if last.CPU <= 0 || last.RSS <= 0 || last.Allocs <= 0 || last.Heap <= 0 || last.Total <= last.Stacks || last.Goroutines < 1 {
		t.Errorf("a look: %+v", last)
	}
	if all := last.since(&s.start); all.CPUEach <= 0 || all.BytesEach <= 0 || all.GCShare > 1 {
		t.Errorf("since the start: %+v", all)
	}
	late := s.measure(begin.Add(24 * time.Hour))
	if len(late) != 1 {
		t.Errorf("%d looks a day later, want the new one alone", len(late))
	}
	if d := last.since(&last); d != (weightDelta{}) {
		t.Errorf("between a look and itself: %+v", d)
	}
}

// TestOwnerRows sorts owners by their bytes; a base that shrank counts as 0.
func TestOwnerRows(t *testing.T) {
	rows, sum := ownerRows([]memory.OwnerBytes{{Owner: "sessions", Bytes: 25}, {Owner: "plan_cache", Bytes: 75}, {Owner: memory.BaseOwner, Bytes: -3}})
	if sum != 100 || len(rows) != 3 || rows[0].Name != "plan_cache" || rows[0].Share != 0.75 || rows[2].Bytes != 0 {
		t.Errorf("rows: %+v, sum %v", rows, sum)
	}
	for _, r := range rows {
		if r.What == "" {
			t.Errorf("nothing says what %s is", r.Name)
		}
	}
	for _, bytes := range []int64{0, 1} {
		want := []ownerRow{{Name: "sessions", What: ownerNames["sessions"], Bytes: float64(bytes), Share: float64(bytes)}}
		if rows, sum := ownerRows([]memory.OwnerBytes{{Owner: "sessions", Bytes: bytes}}); !slices.Equal(rows, want) || sum != float64(bytes) {
			t.Errorf("%d bytes: %+v, sum %v", bytes, rows, sum)
		}
	}
}

// TestWeightDelta compares two measurements: each value is per second, those of statements are per statement.
func TestWeightDelta(t *testing.T) {
	at := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	from := weighing{At: at, CPU: time.Second, GCCPU: 1, GCCycles: 2, Allocs: 10, AllocBytes: 1000, Statements: 7}
	for name, c := range map[string]struct {
		change func(to *weighing)
		want   weightDelta
	}{
		"all": {func(*weighing) {}, weightDelta{
			Seconds: 4, CPU: 0.5, GCShare: 0.25, Collection: 2, AllocRate: 1000, Objects: 10, Statements: 8, Rate: 2, CPUEach: 0.25, ObjectsEach: 5, BytesEach: 500,
		}},
		"no statement":     {func(to *weighing) { to.Statements = 7 }, weightDelta{Seconds: 4, CPU: 0.5, GCShare: 0.25, Collection: 2, AllocRate: 1000, Objects: 10}},
		"fewer statements": {func(to *weighing) { to.Statements = 6 }, weightDelta{Seconds: 4, CPU: 0.5, GCShare: 0.25, Collection: 2, AllocRate: 1000, Objects: 10}},
		"no CPU": {func(to *weighing) { to.CPU = from.CPU }, weightDelta{
			Seconds: 4, Collection: 2, AllocRate: 1000, Objects: 10, Statements: 8, Rate: 2, ObjectsEach: 5, BytesEach: 500,
		}},
		"more of the collector than in all": {func(to *weighing) { to.GCCPU, to.Statements = 9, 7 }, weightDelta{Seconds: 4, CPU: 0.5, GCShare: 1, Collection: 2, AllocRate: 1000, Objects: 10}},
		"less of the collector":             {func(to *weighing) { to.GCCPU, to.Statements = 0.5, 7 }, weightDelta{Seconds: 4, CPU: 0.5, Collection: 2, AllocRate: 1000, Objects: 10}},
		"the same time":                     {func(to *weighing) { to.At = at }, weightDelta{}},
		"earlier":                           {func(to *weighing) { to.At = at.Add(-time.Second) }, weightDelta{Seconds: -1}},
	} {
		to := weighing{At: at.Add(4 * time.Second), CPU: 3 * time.Second, GCCPU: 1.5, GCCycles: 10, Allocs: 50, AllocBytes: 5000, Statements: 15}
		c.change(&to)
		if got := to.since(&from); got != c.want {
			t.Errorf("%s: %+v, want %+v", name, got, c.want)
		}
	}
	for off, want := range map[float64]string{0: "the same", 0.5: "50 % more", -0.5: "50 % less"} {
		if got := offText(off); got != want {
			t.Errorf("%v: %q", off, got)
		}
	}
}

// TestWeightView has measurements of the last seconds and of some minutes: the page compares with the one of ten seconds ago, or with the start.
func TestWeightView(t *testing.T) {
	at := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	var statements uint64
	s := &weightPage{source: &WeightSource{StatementName: "call"}, weigher: newWeigher(func() uint64 { return statements }, at)}
	view := func(after time.Duration) weightData {
		t.Helper()
		d, err := s.load(t.Context(), &view{now: at.Add(after)})
		if err != nil {
			t.Fatal(err)
		}
		return d.(weightData)
	}
	statements = 60
	d := view(time.Minute)
	if d.Names != "calls" || d.Compared || d.Lately != d.Started || d.Started.Seconds != 60 || d.Started.Statements != 60 || len(d.Charts) != 0 || d.Up != seconds(60) {
		t.Errorf("the first measurement: %+v", d)
	}
	for i, c := range []struct {
		after, since time.Duration
		charts       int
	}{{62 * time.Second, 2 * time.Second, 0}, {65 * time.Second, 5 * time.Second, 3}, {70 * time.Second, 10 * time.Second, 3}, {71 * time.Second, 11 * time.Second, 3}, {72 * time.Second, 10 * time.Second, 3}, {80 * time.Second, 10 * time.Second, 3}} {
		statements += uint64(i)
		d := view(c.after)
		if !d.Compared || d.Lately.Seconds != c.since.Seconds() || d.Started.Seconds != c.after.Seconds() || len(d.Charts) != c.charts {
			t.Errorf("after %v: compared with %v s ago (%v), %d charts", c.after, d.Lately.Seconds, d.Compared, len(d.Charts))
		}
	}
	s.source = &WeightSource{}
	if d := view(2 * time.Minute); d.Name != "" || d.Names != "" || d.Owners != nil || d.Off != "" {
		t.Errorf("without a source: %+v", d)
	}
}

// TestOwnersAreNamed expects a description of each owner of the heap that a command declares.
func TestOwnersAreNamed(t *testing.T) {
	files, err := filepath.Glob("../cmd/tare/*_wiring.go")
	if err != nil {
		t.Fatal(err)
	}
	owner := regexp.MustCompile(`\{Name: "([a-z_]+)", Bytes: `)
	seen := 0
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range owner.FindAllStringSubmatch(string(text), -1) {
			seen++
			if ownerNames[m[1]] == "" {
				t.Errorf("%s: what does %s hold? Say it in ownerNames", file, m[1])
			}
		}
	}
	if seen < 10 {
		t.Errorf("%d owners were looked for", seen)
	}
}

// TestProcessFigures sums the metrics of each family; those without a single value count as 0.
func TestProcessFigures(t *testing.T) {
	family := func(name string, kind dto.MetricType, values ...float64) *dto.MetricFamily {
		f := &dto.MetricFamily{Name: &name, Type: &kind}
		for _, v := range values {
			f.Metric = append(f.Metric, &dto.Metric{Counter: &dto.Counter{Value: &v}, Gauge: &dto.Gauge{Value: &v}, Histogram: &dto.Histogram{SampleSum: &v}})
		}
		return f
	}
	counter, gauge, histogram := dto.MetricType_COUNTER, dto.MetricType_GAUGE, dto.MetricType_HISTOGRAM
	for name, c := range map[string]struct {
		families []*dto.MetricFamily
		want     []figure
	}{
		"none": {nil, nil},
		"all": {[]*dto.MetricFamily{
			family("process_cpu_seconds_total", counter, 3), family("tare_statements_total", counter, 1, 2), family("process_resident_memory_bytes", gauge, 1<<20),
			family("go_memstats_heap_alloc_bytes", gauge, 2<<20), family("go_goroutines", gauge, 4), family("process_open_fds", gauge, 5),
		}, []figure{{Name: "CPU per statement", Value: "1 s", Note: "3 s since the start"}, {Name: "Resident memory", Value: "1 MiB"}, {Name: "Heap in use", Value: "2 MiB"}, {Name: "Goroutines", Value: "4"}, {Name: "Open files", Value: "5"}}},
		"no statement": {[]*dto.MetricFamily{family("process_cpu_seconds_total", counter, 3), family("tare_statements_total", counter, 0)}, []figure{{Name: "CPU", Value: "3 s", Note: "since the start"}}},
		"a histogram":  {[]*dto.MetricFamily{family("go_goroutines", histogram, 3), family("process_open_fds", counter, 6)}, []figure{{Name: "Goroutines", Value: "0"}, {Name: "Open files", Value: "6"}}},
	} {
		s := &overviewPage{log: slog.New(slog.DiscardHandler), gatherer: prometheus.GathererFunc(func() ([]*dto.MetricFamily, error) { return c.families, nil })}
		if got := s.ownWeight(); !slices.Equal(got, c.want) {
			t.Errorf("%s: %+v, want %+v", name, got, c.want)
		}
	}
}
