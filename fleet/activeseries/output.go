package activeseries

import "strconv"

// An output has the state of a Body's response.
type output struct {
	order  *Request
	unique *hashSet // nil unless Request.Unique is set
	counts *counter // of all finished workers; nil unless Request.CountBy is set

	countBudget budget

	items      int64
	duplicates int64
	bytes      int64
	limited    bool
	warnings   warningList
}

func (o *output) init(order *Request) {
	o.order = order
	if order.Unique {
		o.unique = newHashSet(order.UniqueBytes)
	}
	if order.CountBy != "" {
		o.countBudget = budget{what: "counts", allowed: order.CountBytes}
		o.counts = newCounter(order.CountBy, &o.countBudget)
	}
}

// head returns the start of the response.
func (*output) head() []byte {
	return []byte(`{"data":[`)
}

// tail returns the end of the response, including requested counts.
func (o *output) tail(fault error) (tail []byte) {
	if o.counts != nil && fault == nil {
		for _, v := range o.counts.largest(o.order.Limit) {
			tail = v.appendItem(tail, o.counts.label)
			o.items++
		}
		o.limited = o.order.Limit > 0 && len(o.counts.values) > o.order.Limit
		if len(tail) > 0 {
			tail = tail[1:]
		}
	}
	tail = append(tail, ']')
	tail = o.appendWarnings(tail)
	if fault != nil {
		tail = append(tail, `,"status":"error","error":`...)
		tail = appendQuoted(tail, fault.Error())
	}
	return append(tail, '}')
}

// appendWarnings appends the member "warnings" if there are any.
func (o *output) appendWarnings(tail []byte) []byte {
	texts := o.warnings.list()
	if o.limited {
		texts = append([]string{"cut to the limit of " + strconv.Itoa(o.order.Limit)}, texts...)
	}
	for i, text := range texts {
		if i == 0 {
			tail = append(tail, `,"warnings":[`...)
		} else {
			tail = append(tail, ',')
		}
		tail = appendQuoted(tail, text)
	}
	if len(texts) > 0 {
		tail = append(tail, ']')
	}
	return tail
}

// keepNew compacts list to the items that were not written before. hashes are the hashes of the items.
func (b *Body) keepNew(list []byte, hashes []uint64) (kept []byte, n int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	kept = list[:0]
	for item := range Items(list) {
		isNew, err := b.out.unique.add(hashes[0])
		if err != nil {
			b.failLocked(err)
			return nil, 0
		}
		hashes = hashes[1:]
		if !isNew {
			b.out.duplicates++
			continue
		}
		// The item is at or after its destination.
		kept = append(append(kept, ','), item...)
		n++
	}
	return kept, n
}

// send writes the n items of list.
func (b *Body) send(list []byte, n int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	o := &b.out
	if b.stopped.Load() {
		return
	}
	if limit := b.order.Limit; limit > 0 && int64(n) > int64(limit)-o.items {
		n = int(int64(limit) - o.items)
		o.limited = true
		defer b.stop()
		if n == 0 {
			return
		}
		list = firstItems(list, n)
	}
	if o.items == 0 {
		list = list[1:] // without the comma
	}
	if most := b.order.MaxBytes; most > 0 && o.bytes+int64(len(list)) > most {
		b.failLocked(&BudgetError{What: "response", Allowed: most})
		return
	}
	o.items += int64(n)
	b.write(list)
}

// firstItems returns the first n items of list.
func firstItems(list []byte, n int) []byte {
	i := 0
	for range n {
		for list[i] != '{' {
			i++
		}
		i = itemEnd(list, i)
	}
	return list[:i:i]
}

// addCounts adds the counts of a worker.
func (b *Body) addCounts(c *counter) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.out.counts.merge(c)
}
