package tsblock

import "context"

// applyKeep removes the series from the window for which Keep returns false. Entries of the others are decoded
// again for their batch: usually most series are removed.
func (s *SeriesReader) applyKeep(ctx context.Context) error {
	r := s.reader
	sc := r.scratch
	text, a := textArena{pool: r.block.options.Pool}, account{quota: r.account.quota}
	defer a.close()
	defer text.release()
	inRange := sc.window[:0]
	sc.slots, sc.ends = sc.slots[:0], sc.ends[:0]
	var err error
	if sc.ends, err = room(r, sc.ends, len(sc.window)); err != nil {
		return err
	}
	for _, ref := range sc.window {
		body, off, err := s.entry(ctx, ref)
		if err != nil {
			return err
		}
		slots := len(sc.slots)
		p, err := s.series(body, off, ref)
		if err != nil {
			return err
		}
		if p.count == 0 && !s.every {
			sc.slots = sc.slots[:slots]
			r.stats.Outside++
			continue
		}
		inRange = append(inRange, ref)
		sc.ends = append(sc.ends, uint32(len(sc.slots)))
	}
	if err := s.resolve(ctx, &text, &a); err != nil {
		return err
	}
	kept, begin := inRange[:0], uint32(0)
	for i, ref := range inRange {
		slots := sc.slots[begin:sc.ends[i]]
		begin = sc.ends[i]
		if sc.labels, err = room(r, sc.labels[:0], len(slots)/2); err != nil {
			return err
		}
		set := sc.labels[:len(slots)/2]
		sc.texts(set, slots)
		if s.query.Keep(set) {
			kept = append(kept, ref)
		} else {
			r.stats.Dropped++
		}
		clear(set)
	}
	sc.window, s.keepApplied = kept, true
	return nil
}
