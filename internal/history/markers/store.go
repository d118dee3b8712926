package markers

import (
	"errors"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/taredb/tare/internal/localstate"
	"github.com/taredb/tare/internal/mysql/sqlplan"
)

// Options configures a Store.
type Options struct {
	// Bytes bounds the markers in memory, and the file to twice that size; 0: DefaultBytes. The oldest are
	// removed, also those of a file that was written with another bound.
	Bytes int64

	// Path is the file; "" keeps markers only in memory. State sets a damaged file aside.
	Path  string
	State *localstate.Store

	// Added is called with each added marker; may be nil.
	Added func(Marker)

	NoTexts bool // schema changes are recorded without their text and tables

	Now func() time.Time // nil: the system's
	Log *slog.Logger     // required
}

// Bounds of a Store's Options.Bytes: some thousand markers by default.
const (
	DefaultBytes = 1 << 20
	MinBytes     = 64 << 10
	MaxBytes     = 8 << 20
)

const (
	maxTitle = 200
	maxText  = 2048
	maxLink  = 500

	// merged is the time within which like markers are merged.
	merged = time.Minute
)

// A Store keeps markers within a bound. It is safe for concurrent use.
type Store struct {
	opts    Options
	planner *sqlplan.Planner // of the tables of schema changes
	ddl     ddlSlots
	limit   rateLimit
	file    file

	dropped atomic.Uint64 // schema changes dropped for lack of a slot

	mu     sync.Mutex
	all    []Marker        // guarded by mu, as all below; by ID
	bytes  int64           //
	nextID uint64          //
	added  map[Kind]uint64 // markers since the start, by kind
}

// Open returns a Store with the markers of its file. A file that cannot be used is set aside; if no file can
// be created, the Store is only in memory.
func Open(o Options) (*Store, error) {
	if o.Log == nil || o.Path != "" && o.State == nil || o.Bytes < 0 {
		return nil, errors.New("BUG: markers: options without log, state or bound")
	}
	if o.Bytes == 0 {
		o.Bytes = DefaultBytes
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	planner, err := sqlplan.New(sqlplan.Options{CacheBytes: 256 << 10})
	if err != nil {
		return nil, err
	}
	s := &Store{opts: o, planner: planner, nextID: 1, added: make(map[Kind]uint64)}
	s.ddl.wake, s.ddl.texts = make(chan struct{}, 1), make([]byte, 0, slotTexts)
	for _, m := range s.open() {
		s.all = append(s.all, m)
		s.bytes += m.bytes()
		s.nextID = max(s.nextID, m.ID+1)
	}
	s.trim()
	return s, nil
}

// Add records a marker and returns it as recorded: with an ID, times in UTC, and texts truncated to their
// bounds. A marker like the newest one of its kind within a minute is counted there instead.
func (s *Store) Add(m Marker) Marker {
	m = s.complete(m)
	s.mu.Lock()
	s.added[m.Kind]++
	if last := s.like(&m); last != nil {
		last.Count = max(last.Count, 1) + 1
		last.Time, last.End = earlier(last.Time, m.Time), later(last.End, m.End)
		m = *last
	} else {
		m.ID = s.nextID
		s.nextID++
		s.all = append(s.all, m)
		s.bytes += m.bytes()
		s.trim()
	}
	s.mu.Unlock()
	s.write(&m)
	if s.opts.Added != nil {
		s.opts.Added(m)
	}
	return m
}

func earlier(a, b time.Time) time.Time {
	if b.Before(a) {
		return b
	}
	return a
}

func later(a, b time.Time) time.Time {
	if b.After(a) {
		return b
	}
	return a
}

func (s *Store) complete(m Marker) Marker {
	if m.Time.IsZero() {
		m.Time = s.opts.Now()
	}
	m.Time = m.Time.UTC().Round(0).Truncate(time.Millisecond)
	if m.End = m.End.UTC().Round(0).Truncate(time.Millisecond); m.End.Before(m.Time) {
		m.End = m.Time
	}
	m.TextCut = m.Text != "" && (m.TextCut || len(m.Text) > maxText)
	m.Title, m.Text, m.Link = cut(m.Title, maxTitle), cut(m.Text, maxText), cut(m.Link, maxLink)
	return m
}

// like returns the newest marker of the kind if it is equal to m in content and recent. The caller holds mu.
func (s *Store) like(m *Marker) *Marker {
	for i := len(s.all) - 1; i >= 0; i-- {
		last := &s.all[i]
		if last.Kind != m.Kind {
			continue
		}
		same := last.Title == m.Title && last.Text == m.Text && last.User == m.User && last.Digest == m.Digest && slices.Equal(last.Tables, m.Tables) && last.Link == m.Link
		if same && m.Time.Sub(last.Time).Abs() <= merged {
			return last
		}
		return nil
	}
	return nil
}

// trim removes the oldest markers over the bound. The caller holds mu.
func (s *Store) trim() {
	n := 0
	for n < len(s.all)-1 && s.bytes > s.opts.Bytes {
		s.bytes -= s.all[n].bytes()
		n++
	}
	s.all = slices.Delete(s.all, 0, n)
}

// Between returns copies of the markers that overlap a time range, the oldest first, and at most limit of
// them: the newest.
func (s *Store) Between(from, to time.Time, limit int) []Marker {
	s.mu.Lock()
	defer s.mu.Unlock()
	var found []Marker
	for i := range s.all {
		if m := &s.all[i]; !m.End.Before(from) && !m.Time.After(to) {
			found = append(found, *m)
		}
	}
	slices.SortStableFunc(found, func(a, b Marker) int { return a.Time.Compare(b.Time) })
	return found[max(len(found)-limit, 0):]
}

// HeapBytes returns the bytes charged for the markers.
func (s *Store) HeapBytes() int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.bytes
}

// cut truncates text to at most n bytes, at a rune boundary.
func cut(text string, n int) string {
	if len(text) <= n {
		return text
	}
	for n > 0 && text[n]&0xC0 == 0x80 {
		n--
	}
	return text[:n]
}

var (
	addedDesc   = prometheus.NewDesc("tare_events_total", "Events recorded; kinds that clients choose count as reported.", []string{"kind"}, nil)
	bytesDesc   = prometheus.NewDesc("tare_events_bytes", "Bytes of the events in memory.", nil, nil)
	droppedDesc = prometheus.NewDesc("tare_events_dropped_total", "Schema changes not recorded as events, because too many came at once.", nil, nil)
)

// Describe implements prometheus.Collector.
func (s *Store) Describe(ch chan<- *prometheus.Desc) {
	ch <- addedDesc
	ch <- bytesDesc
	ch <- droppedDesc
}

// Collect implements prometheus.Collector.
func (s *Store) Collect(ch chan<- prometheus.Metric) {
	s.mu.Lock()
	counts := make(map[string]uint64, len(reserved)+1)
	for _, k := range reserved {
		counts[string(k)] = 0
	}
	for k, n := range s.added {
		if !slices.Contains(reserved, k) {
			k = "reported"
		}
		counts[string(k)] += n
	}
	bytes := s.bytes
	s.mu.Unlock()
	for k, n := range counts {
		ch <- prometheus.MustNewConstMetric(addedDesc, prometheus.CounterValue, float64(n), k)
	}
	ch <- prometheus.MustNewConstMetric(bytesDesc, prometheus.GaugeValue, float64(bytes))
	ch <- prometheus.MustNewConstMetric(droppedDesc, prometheus.CounterValue, float64(s.dropped.Load()))
}
