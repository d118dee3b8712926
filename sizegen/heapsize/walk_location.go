package heapsize

import (
	"reflect"
	"sync"
	"time"
	"unsafe"
)

// Location records a time zone, as returned by [time.Time.Location]. The zones of the process cost nothing:
// UTC, Local, and the unnamed zones of whole hours that parsed times share. Any other was created by
// LoadLocation or FixedZone and lives as long as a value references it.
//
// Its strings are counted and never detached: other goroutines may read them. On a Go release with another
// layout of time.Location the walk stops with an [Error].
func (w *Walk) Location(loc *time.Location) {
	if loc == nil || loc == time.UTC || loc == time.Local {
		return
	}
	l := knownLocation(loc)
	if l.name == "" && len(l.zone) == 1 && wholeHours(l.zone[0].offset) && time.FixedZone("", l.zone[0].offset) == loc {
		return
	}
	if w.Enter(unsafe.Pointer(l), unsafe.Sizeof(*l), true) {
		w.LocationParts(loc)
	}
}

// LocationParts is [Walk.Location] for a time zone that is itself a part of a visited object, such as a field or
// an element.
func (w *Walk) LocationParts(loc *time.Location) {
	l := knownLocation(loc)
	w.countString(l.name)
	w.countString(l.extend)
	if WalkSlice(w, l.zone, true) {
		for i := range l.zone {
			w.countString(l.zone[i].name)
		}
	}
	WalkSlice(w, l.tx, false)
}

// knownLocation returns the fields of loc.
func knownLocation(loc *time.Location) *location {
	if !locationKnown() {
		panic(&Error{Where: "time.Location", Why: "its fields in this Go release are not those that heapsize knows"})
	}
	return (*location)(unsafe.Pointer(loc))
}

// wholeHours reports whether time.FixedZone caches a zone of that offset for the whole process, to the extent
// it may: for the others FixedZone would allocate.
func wholeHours(offset int) bool {
	return offset%3600 == 0 && -12*3600 <= offset && offset <= 14*3600
}

// location, zone and zoneChange have the layout of time.Location, time.zone and time.zoneTrans.
type (
	location struct {
		name       string
		zone       []zone
		tx         []zoneChange
		extend     string
		cacheStart int64
		cacheEnd   int64
		cacheZone  *zone // points into zone
	}
	zone struct {
		name   string
		offset int
		isDST  bool
	}
	zoneChange struct {
		when         int64
		index        uint8
		isstd, isutc bool
	}
)

//nolint:gochecknoglobals // of the running program, checked once
var locationKnown = sync.OnceValue(func() bool {
	return sameLayout(layoutPair{reflect.TypeFor[time.Location](), reflect.TypeFor[location]()}, make(map[layoutPair]bool))
})
