package heaptest

import (
	"math/rand/v2"
	"reflect"
	"strings"
	"sync"
	"time"
	"unsafe"
)

// A Filler sets values at random.
type Filler struct {
	Rand *rand.Rand

	// Types are the dynamic types of interfaces, by the interface, path.Type, or by a field of that type,
	// path.Type.Field. Unlisted interfaces stay nil.
	Types map[string][]reflect.Type

	// Skip lists the fields and types that keep their zero values, as path.Type.Field and path.Type.
	Skip map[string]bool

	// Size is the approximate number of objects that Fill creates. Default: 100.
	Size int

	left         int
	skipped, set int // fields with pointers
}

// Fill sets *v, a pointer to a value.
func (f *Filler) Fill(v any) {
	f.left = f.Size
	if f.left == 0 {
		f.left = 100
	}
	f.fill(reflect.ValueOf(v).Elem(), "")
}

// more reports whether to create one more object.
func (f *Filler) more() bool {
	f.left--
	return f.left > 0 && f.Rand.IntN(8) > 0
}

// fill sets v. The field that v is in, if it has a name, is path.Type.Field.
func (f *Filler) fill(v reflect.Value, field string) {
	t := v.Type()
	name := nameOf(t)
	if f.Skip[name] || f.Skip[field] {
		f.skipped++
		return
	}
	if f.special(v, name, field) {
		return
	}
	switch t.Kind() {
	case reflect.String, reflect.Pointer, reflect.Slice, reflect.Map, reflect.Interface:
		f.set++
	}
	switch t.Kind() {
	case reflect.Bool:
		v.SetBool(f.Rand.IntN(2) == 0)
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		v.SetInt(f.Rand.Int64())
	case reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		v.SetUint(f.Rand.Uint64())
	case reflect.Float32, reflect.Float64:
		v.SetFloat(f.Rand.Float64())
	case reflect.String:
		if f.more() {
			v.SetString(f.text())
		}
	case reflect.Pointer:
		if f.more() {
			p := reflect.New(t.Elem())
			f.fill(p.Elem(), "")
			v.Set(p.Convert(t))
		}
	case reflect.Slice:
		if f.more() {
			n := f.Rand.IntN(5)
			s := reflect.MakeSlice(t, n, n+f.Rand.IntN(2))
			for i := range n {
				f.fill(s.Index(i), field)
			}
			v.Set(s)
		}
	case reflect.Array:
		for i := range v.Len() {
			f.fill(v.Index(i), field)
		}
	case reflect.Map:
		f.fillMap(v, field)
	case reflect.Struct:
		for i := range t.NumField() {
			if t.Field(i).Name == "_" {
				continue // no program can set it
			}
			// By its address, unexported fields can be set too.
			x := v.Field(i)
			f.fill(reflect.NewAt(x.Type(), unsafe.Pointer(x.UnsafeAddr())).Elem(), nameOf(t)+"."+t.Field(i).Name)
		}
	case reflect.Interface:
		f.fillInterface(v, field)
	}
}

func (f *Filler) text() string {
	const letters = "abcdefghijklmnopqrstuvwxyz "
	b := make([]byte, 1+f.Rand.IntN(60))
	for i := range b {
		b[i] = letters[f.Rand.IntN(len(letters))]
	}
	return string(b)
}

func (f *Filler) fillMap(v reflect.Value, field string) {
	if !f.more() {
		return
	}
	m := reflect.MakeMap(v.Type())
	for range f.Rand.IntN(12) {
		key, elem := reflect.New(v.Type().Key()).Elem(), reflect.New(v.Type().Elem()).Elem()
		f.fill(key, field)
		if !key.Comparable() {
			continue
		}
		f.fill(elem, field)
		m.SetMapIndex(key, elem)
	}
	v.Set(m)
}

func (f *Filler) fillSyncMap(m *sync.Map, field string) {
	if !f.more() {
		return
	}
	for range f.Rand.IntN(12) {
		var key, elem any
		f.fillInterface(reflect.ValueOf(&key).Elem(), field)
		f.fillInterface(reflect.ValueOf(&elem).Elem(), field)
		if key != nil && reflect.ValueOf(key).Comparable() {
			m.Store(key, elem)
		}
	}
}

func (f *Filler) fillInterface(v reflect.Value, field string) {
	known := f.Types[field]
	if known == nil {
		known = f.Types[nameOf(v.Type())]
	}
	if len(known) == 0 || !f.more() {
		return
	}
	x := reflect.New(known[f.Rand.IntN(len(known))])
	if x.Elem().Kind() == reflect.Pointer {
		x.Elem().Set(reflect.New(x.Elem().Type().Elem()))
		f.fill(x.Elem().Elem(), "")
	} else {
		f.fill(x.Elem(), "")
	}
	v.Set(x.Elem())
}

// special fills, or skips, types that arbitrary bytes would break.
func (f *Filler) special(v reflect.Value, name, field string) bool {
	switch {
	case name == "time.Time":
		t := time.Unix(f.Rand.Int64N(1<<32), 0)
		switch f.Rand.IntN(3) {
		case 0:
			t = t.UTC()
		case 1:
			t = t.In(f.zone())
		}
		v.Set(reflect.ValueOf(t))
		return true
	case name == "time.Location":
		v.Set(reflect.ValueOf(f.zone()).Elem())
		return true
	case name == "sync.Map":
		f.fillSyncMap(v.Addr().Interface().(*sync.Map), field)
		return true
	case strings.HasPrefix(name, "sync/atomic.Pointer["):
		if f.more() {
			store := v.Addr().MethodByName("Store")
			p := reflect.New(store.Type().In(0).Elem())
			f.fill(p.Elem(), "")
			store.Call([]reflect.Value{p})
		}
		return true
	case strings.HasPrefix(name, "sync."), strings.HasPrefix(name, "unique."), strings.HasPrefix(name, "reflect."):
		return true
	}
	return false
}

// zone returns a time zone that no other value shares.
func (f *Filler) zone() *time.Location { return time.FixedZone(f.text(), f.Rand.IntN(3600)) }

// nameOf returns path.Type, or "" for a type without a name.
func nameOf(t reflect.Type) string {
	switch {
	case t.Name() == "":
		if t.Kind() == reflect.Interface && t.NumMethod() == 0 {
			return "any"
		}
		return ""
	case t.PkgPath() == "":
		return t.Name()
	}
	return t.PkgPath() + "." + t.Name()
}
