package heaptest_test

import (
	"errors"
	"math/rand/v2"
	"reflect"
	"sync"
	"testing"
	"time"
	"unsafe"

	"github.com/taredb/tare/sizegen/heapsize"
	"github.com/taredb/tare/sizegen/heaptest"
)

// TestCompare measures arrays of known cost, and truncates them.
func TestCompare(t *testing.T) {
	const n, size = 1000, 4096
	build := func(int) *[]byte { b := make([]byte, size); return &b }
	sum := func(values []*[]byte) (total int64, err error) {
		for _, v := range values {
			total += int64(heapsize.Bytes(*v) + heapsize.Object(unsafe.Sizeof(*v), true))
		}
		return total, nil
	}
	r, err := heaptest.Compare(n, build, sum)
	if err != nil || r.Accounted < n*size || r.Off() < -1 || r.Off() > 1 {
		t.Errorf("%+v, %.3f %% off, %v", r, r.Off(), err)
	}
	// Memory that size releases does not count.
	r, err = heaptest.Compare(n, build, func(values []*[]byte) (int64, error) {
		for _, v := range values {
			*v = make([]byte, size/4)
		}
		return sum(values)
	})
	if err != nil || r.Accounted > n*size/2 || r.Off() < -1 || r.Off() > 1 {
		t.Errorf("cut down: %+v, %.3f %% off, %v", r, r.Off(), err)
	}
	failure := errors.New("failure")
	if _, err := heaptest.Compare(n, build, func([]*[]byte) (int64, error) { return 0, failure }); !errors.Is(err, failure) {
		t.Errorf("the error is %v", err)
	}
	if off := (heaptest.Result{}).Off(); off != 0 {
		t.Errorf("nothing is off by %v", off)
	}
}

type (
	shape interface{ area() }
	disc  struct{ name string }
	all   struct {
		text   string
		number int
		list   []*all
		index  map[string]float64
		any    any
		shape  shape
		same   shape
		at     time.Time
		zone   time.Location
		synced sync.Map
		grid   [2][]int8
		skip   *int
		f      func()
		c      chan int
		_      *int
		_      string
	}
)

func (*disc) area() {}

// TestFiller checks that each field is set in some of the values, except those that are skipped, are blank or
// cannot be set, and that the same seed gives the same values.
func TestFiller(t *testing.T) {
	const pkg = "github.com/taredb/tare/sizegen/heaptest_test."
	fill := func(seed uint64) *all {
		f := heaptest.Filler{
			Rand: rand.New(rand.NewPCG(seed, 0)),
			Types: map[string][]reflect.Type{
				"any":           {reflect.TypeFor[string](), reflect.TypeFor[[]int]()},
				pkg + "shape":   {reflect.TypeFor[*disc]()},
				pkg + "all.any": {reflect.TypeFor[int]()},
			},
			Skip: map[string]bool{pkg + "all.skip": true},
		}
		v := new(all)
		f.Fill(v)
		return v
	}
	set := make(map[string]int)
	for seed := range uint64(100) {
		v := fill(seed)
		s := reflect.ValueOf(v).Elem()
		for i := range s.NumField() {
			if !s.Field(i).IsZero() {
				set[s.Type().Field(i).Name]++
			}
		}
		if v.any != nil {
			if _, ok := v.any.(int); !ok {
				t.Errorf("a field listed as int holds a %T", v.any)
			}
		}
		if again := fill(seed); !reflect.DeepEqual(v.index, again.index) || v.text != again.text || len(v.list) != len(again.list) {
			t.Error("the same seed gives another value")
		}
	}
	for _, name := range []string{"text", "number", "list", "index", "any", "shape", "same", "at", "zone", "synced", "grid"} {
		if set[name] < 10 {
			t.Errorf("%s is set in %d of 100 values", name, set[name])
		}
	}
	for _, name := range []string{"skip", "f", "c", "_"} {
		if set[name] > 0 {
			t.Errorf("%s is set in %d values", name, set[name])
		}
	}
}
