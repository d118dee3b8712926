package web

import (
	"os"
	"path/filepath"
	"regexp"
	"testing"
	"time"

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
