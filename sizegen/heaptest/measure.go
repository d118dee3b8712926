package heaptest

import (
	"fmt"
	"math/rand/v2"
	"reflect"
	"strings"
	"unsafe"

	"github.com/taredb/tare/sizegen/heapsize"
)

// A Root is the pointer type of a type for which sizegen generated a walk.
type Root[T any] interface {
	*T
	CachedSize(w *heapsize.Walk) (int64, error)
}

// A Plan is the input of [Random] and [Real] that sizegen -measure generates.
type Plan struct {
	Name   string                    // of the root
	Types  map[string][]reflect.Type // as in Filler
	Skip   map[string]bool           // as in Filler: fields and types with a directive shared, size or opaque
	Shared map[string]bool           // those with a directive shared
}

const measured = 2000 // values

// Limits of a measurement, in percent.
const (
	mostBelow    = 1  // by which the account may be below the heap
	mostDeclared = 50 // that must not be behind directives
)

// Random compares the sizes of random values with the heap. It returns a line with the result, and an error if it is too
// low, or if most fields are declared away.
func Random[T any, P Root[T]](p Plan) (string, error) {
	var skipped, set int
	build := func(i int) *T {
		v := new(T)
		f := Filler{Rand: rand.New(rand.NewPCG(uint64(i), 1)), Types: p.Types, Skip: p.Skip}
		f.Fill(v)
		skipped, set = skipped+f.skipped, set+f.set
		return v
	}
	m, line, err := compare[T, P](p, "random values", false, build)
	if err != nil {
		return "", err
	}
	share := percent(int64(skipped), int64(skipped+set))
	line += fmt.Sprintf("; %.0f %% of the fields are behind shared, size or opaque, %.0f %% of the bytes are stated by size, each or opaque", share, m.stated)
	if share >= mostDeclared {
		return line, fmt.Errorf("%s: %d of %d fields with pointers in random values are behind directives: the size is that of the rest alone", p.Name, skipped, skipped+set)
	}
	return line, m.verdict(p)
}

// Real compares the sizes of the values that build returns, detached, with the heap. It returns a line with the result,
// and an error if it is too low, or if most bytes are declared away.
func Real[T any, P Root[T]](p Plan, function string, build func(i int) *T) (string, error) {
	m, line, err := compare[T, P](p, "values of "+function+", detached", true, build)
	if err != nil {
		return "", err
	}
	var all, own heapsize.Walk
	for i := range measured / 10 {
		v := reflect.ValueOf(build(i))
		reach(&all, v, nil, "")
		reach(&own, v, p.Shared, "")
	}
	total := all.Finish()
	shared := percent(total-own.Finish(), total)
	line += fmt.Sprintf("; %.0f %% of the bytes are behind shared, %.0f %% are stated by size, each or opaque", shared, m.stated)
	if shared+m.stated >= mostDeclared {
		return line, fmt.Errorf("%s: most of what it holds is declared away by directives: the size is that of the rest alone", p.Name)
	}
	return line, m.verdict(p)
}

// A measurement is a Result and what the walks reported.
type measurement struct {
	Result
	stated float64 // percent of the account
	parts  int
}

// verdict returns an error if the account is too low.
func (m measurement) verdict(p Plan) error {
	if m.Off() < -mostBelow {
		return fmt.Errorf("%s: the account is %.2f %% below the heap: the values hold objects that the walk does not see", p.Name, -m.Off())
	}
	return nil
}

func compare[T any, P Root[T]](p Plan, what string, detach bool, build func(i int) *T) (m measurement, line string, err error) {
	var stated, outside int64
	var objects int
	m.Result, err = Compare(measured, build, func(values []*T) (sum int64, err error) {
		w := heapsize.Walk{Detach: detach}
		stated, objects, outside, m.parts = 0, 0, 0, 0
		for _, v := range values {
			size, err := P(v).CachedSize(&w)
			if err != nil {
				return 0, fmt.Errorf("%s: %w", p.Name, err)
			}
			n, bytes := w.Outside()
			sum, stated, objects, outside, m.parts = sum+size, stated+w.Stated(), objects+n, outside+bytes, m.parts+w.Parts()
		}
		return sum, nil
	})
	if err != nil {
		return m, "", err
	}
	m.stated = percent(stated, m.Accounted)
	var b strings.Builder
	fmt.Fprintf(&b, "%s: %d %s, %d bytes accounted, %d real, %+.2f %%", p.Name, measured, what, m.Accounted, m.Heap, m.Off())
	if m.parts > 0 {
		fmt.Fprintf(&b, "; %d arrays are seen in part", m.parts)
	}
	if objects > 0 {
		fmt.Fprintf(&b, "; %d objects of %d bytes are outside of the heap, not charged", objects, outside)
	}
	return m, b.String(), nil
}

func percent(n, of int64) float64 {
	if of == 0 {
		return 0
	}
	return 100 * float64(n) / float64(of)
}

// reach leads w over all that v references, by reflection, except for the fields and types to skip. It estimates maps.
func reach(w *heapsize.Walk, v reflect.Value, skip map[string]bool, field string) {
	if skip[field] || skip[nameOf(v.Type())] {
		return
	}
	switch v.Kind() {
	case reflect.Pointer:
		if !skip[nameOf(v.Type().Elem())] && w.Enter(v.UnsafePointer(), v.Type().Elem().Size(), true) {
			reach(w, v.Elem(), skip, "")
		}
	case reflect.Interface:
		reachDynamic(w, v, skip)
	case reflect.String:
		s := v.String()
		w.String(&s)
	case reflect.Slice:
		if w.Enter(v.UnsafePointer(), uintptr(v.Cap())*v.Type().Elem().Size(), true) {
			for i := range v.Len() {
				reach(w, v.Index(i), skip, field)
			}
		}
	case reflect.Array:
		for i := range v.Len() {
			reach(w, v.Index(i), skip, field)
		}
	case reflect.Map:
		if v.IsNil() || !w.Enter(v.UnsafePointer(), unsafe.Sizeof(uintptr(0)), true) {
			return
		}
		w.Add(uintptr(v.Len()) * (v.Type().Key().Size() + v.Type().Elem().Size()))
		for it := v.MapRange(); it.Next(); {
			reach(w, it.Key(), skip, field)
			reach(w, it.Value(), skip, field)
		}
	case reflect.Struct:
		for i := range v.NumField() {
			reach(w, v.Field(i), skip, nameOf(v.Type())+"."+v.Type().Field(i).Name)
		}
	}
}

func reachDynamic(w *heapsize.Walk, v reflect.Value, skip map[string]bool) {
	if v.IsNil() {
		return
	}
	if v.Elem().Kind() != reflect.Pointer {
		w.Add(v.Elem().Type().Size())
	}
	reach(w, v.Elem(), skip, "")
}
