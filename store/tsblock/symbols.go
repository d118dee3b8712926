package tsblock

import (
	"context"
	"slices"

	"github.com/taredb/tare/internal/slab"
)

// A symbolSet is the set of symbols of a batch. Each symbol has a slot, in the order of insertion.
type symbolSet struct {
	table []symbolPlace // open addressing; the length is a power of two
	epoch uint32        // of the entries in use
	order []uint64      // symbol << 32 | slot
	texts []string      // by slot, once resolved
}

type symbolPlace struct{ symbol, slot, epoch uint32 }

// reset clears the set and its texts.
func (s *symbolSet) reset() {
	s.order = s.order[:0]
	clear(s.texts)
	s.texts = s.texts[:0]
	s.epoch++
	if s.epoch == 0 {
		clear(s.table)
		s.epoch = 1
	}
}

func (s *symbolSet) bytes() int64 {
	return sliceBytes(s.table) + sliceBytes(s.order) + sliceBytes(s.texts)
}

// slot returns the slot of a symbol, and adds the symbol if needed.
func (s *symbolSet) slot(r *Reader, symbol uint32) (uint32, error) {
	if 2*len(s.order) >= len(s.table) {
		if err := s.grow(r); err != nil {
			return 0, err
		}
	}
	mask := uint32(len(s.table) - 1)
	for i := symbol * 0x9E3779B1 >> 7 & mask; ; i = (i + 1) & mask {
		p := &s.table[i]
		if p.epoch != s.epoch {
			var err error
			if s.order, err = room(r, s.order, 1); err != nil {
				return 0, err
			}
			*p = symbolPlace{symbol, uint32(len(s.order)), s.epoch}
			s.order = append(s.order, uint64(symbol)<<32|uint64(p.slot))
			return p.slot, nil
		}
		if p.symbol == symbol {
			return p.slot, nil
		}
	}
}

func (s *symbolSet) grow(r *Reader) error {
	size := max(2*len(s.table), 256)
	more := int64(size-len(s.table)) * 12
	if err := r.account.reserve(scratchPurpose, more); err != nil {
		return err
	}
	s.table = make([]symbolPlace, size)
	s.epoch = max(s.epoch, 1)
	mask := uint32(size - 1)
	for _, o := range s.order {
		symbol := uint32(o >> 32)
		i := symbol * 0x9E3779B1 >> 7 & mask
		for s.table[i].epoch == s.epoch {
			i = (i + 1) & mask
		}
		s.table[i] = symbolPlace{symbol, uint32(o), s.epoch}
	}
	return nil
}

// scratchPurpose is the purpose that the working memory of a reader is charged as.
const scratchPurpose = slab.Series

// symbolPages is the number of pages of symbols that are pinned at once.
const symbolPages = 64

// symbolAhead bounds the bytes that are pinned for a symbol, whose position is known to the sampled symbol before it.
// The rest is read when it is reached.
const symbolAhead = 4 * pageSize

// resolveSymbols finds the texts of a set in one pass through their pages, and stores the strings that keep
// returns.
func (r *Reader) resolveSymbols(ctx context.Context, s *symbolSet, keep func([]byte) (string, error)) error {
	var err error
	if s.texts, err = room(r, s.texts[:0], len(s.order)); err != nil {
		return err
	}
	s.texts = s.texts[:len(s.order)]
	slices.Sort(s.order)
	if known, err := r.knownSymbols(s, keep); known || err != nil {
		return err
	}
	h, set := r.head, &r.scratch.local
	set.init(h.file, slab.Series, &r.stats.Symbols)
	defer set.reset()
	w := walk{set: set}
	w.start(0, h.symbolEnd, pageSize)
	pinned := 0 // number of symbols whose pages are pinned
	at := uint64(1) << 63
	for i, o := range s.order {
		symbol := o >> 32
		if i == pinned {
			set.reset()
			w.rest = nil
			for ; pinned < len(s.order) && len(set.pins) < symbolPages; pinned++ {
				from, to := h.symbolSpan(s.order[pinned] >> 32)
				set.request(from, min(to-from, symbolAhead))
			}
			if err := set.load(ctx); err != nil {
				return err
			}
		}
		if at, err = r.seekSymbol(&w, at, symbol); err != nil {
			return err
		}
		text, err := w.symbol(ctx, symbol-at)
		if err != nil {
			return err
		}
		at = symbol + 1
		r.stats.Symbols.Items++
		r.stats.Symbols.Touched += int64(len(text))
		if err := r.scratch.known.addSymbol(r, uint32(symbol), text); err != nil {
			return err
		}
		if s.texts[uint32(o)], err = keep(text); err != nil {
			return err
		}
	}
	return nil
}

// knownSymbols is resolveSymbols if the texts of all symbols are known. Otherwise it returns false.
func (r *Reader) knownSymbols(s *symbolSet, keep func([]byte) (string, error)) (bool, error) {
	k := &r.scratch.known
	for _, o := range s.order {
		if _, ok := k.symbol(uint32(o >> 32)); !ok {
			return false, nil
		}
	}
	for _, o := range s.order {
		text, _ := k.symbol(uint32(o >> 32))
		r.stats.Symbols.Items++
		r.stats.Symbols.Touched += int64(len(text))
		var err error
		if s.texts[uint32(o)], err = keep(text); err != nil {
			return false, err
		}
	}
	return true, nil
}

// seekSymbol moves a walk at the symbol at to symbol, or to one shortly before it, and returns its new
// position.
func (r *Reader) seekSymbol(w *walk, at, symbol uint64) (uint64, error) {
	h := r.head
	if h.version == 1 {
		w.seek(int64(symbol) - h.symbolBase)
		if w.pos < 0 || w.pos >= h.symbolEnd {
			return 0, r.block.corrupt("index", int64(symbol), "no symbol is there")
		}
		return symbol, nil
	}
	if symbol >= h.symbolCount {
		return 0, r.block.corrupt("index", h.series.from, "a series refers to a symbol that is not there")
	}
	if at > symbol || at/sampleEvery != symbol/sampleEvery {
		at = symbol / sampleEvery * sampleEvery
		w.seek(h.symbols[symbol/sampleEvery])
	}
	return at, nil
}

// symbol skips over symbols and returns the text of the next, valid until the walk moves on.
func (w *walk) symbol(ctx context.Context, over uint64) ([]byte, error) {
	for {
		n, err := w.uvarint(ctx)
		if err != nil {
			return nil, err
		}
		if over == 0 {
			return w.bytes(ctx, n)
		}
		if err := w.skip(n); err != nil {
			return nil, err
		}
		over--
	}
}

// symbolSpan returns the approximate position of a symbol in the header's file.
func (h *header) symbolSpan(symbol uint64) (from, to int64) {
	if h.version == 1 {
		from = int64(symbol) - h.symbolBase
		return from, from + 64
	}
	i := symbol / sampleEvery
	if i >= uint64(len(h.symbols)) {
		return 0, 0
	}
	to = h.symbolEnd
	if i+1 < uint64(len(h.symbols)) {
		to = h.symbols[i+1]
	}
	return h.symbols[i], to
}
