package markers

import "time"

// Reach is the maximum time between a marker and a rise of which it may be the cause.
const Reach = 10 * time.Minute

// LikelyCause returns the marker that may be the cause of a rise of a statement with these tables, which
// started at since, give or take slack. A schema change and a lock must name one of the tables; any other
// marker may be the cause of any rise, except a plan change, which is a consequence. Schema changes and
// locks are preferred to others, then the nearest marker.
func LikelyCause(all []Marker, tables []string, since time.Time, slack time.Duration) (Marker, bool) {
	var best Marker
	found := false
	for _, m := range all {
		switch {
		case m.Kind == KindPlan:
			continue
		case m.Time.After(since.Add(slack)), m.End.Before(since.Add(-Reach)):
			continue
		case m.Statement() && !m.Names(tables):
			continue
		}
		if !found || better(&m, &best, since) {
			best, found = m, true
		}
	}
	return best, found
}

func better(a, b *Marker, since time.Time) bool {
	if a.Statement() != b.Statement() {
		return a.Statement()
	}
	return a.End.Sub(since).Abs() < b.End.Sub(since).Abs()
}
