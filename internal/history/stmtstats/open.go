package stmtstats

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"golang.org/x/sys/unix"

	"github.com/taredb/tare/internal/localstate"
	"github.com/taredb/tare/querylog"
)

// open sets the memory of t.
func (t *Table) open() error {
	g := geometryOf(t.opts.MaxDigests, t.opts.Bytes)
	if t.opts.Dir == "" {
		f, err := anonymous(g.bytes())
		if err != nil {
			return err
		}
		t.file = f
		t.resume(g.format(f.raw, t.opts.Redaction))
		return nil
	}
	if err := os.MkdirAll(t.opts.Dir, 0o700); err != nil {
		return err
	}
	if t.opts.State == nil {
		t.opts.State = localstate.Open(t.opts.Dir, t.opts.Now, t.opts.Slog)
	}
	if path := filepath.Join(t.opts.Dir, lockName); !localstate.IsFile(path) {
		t.opts.State.SetAside(path, lockPiece, localstate.ErrNotFile)
	}
	lock, err := lockDir(t.opts.Dir)
	if err != nil {
		return err
	}
	t.file = &mapFile{lock: lock}
	path := filepath.Join(t.opts.Dir, tableName)
	mem, err := t.openFile(path, g)
	if err != nil {
		return errors.Join(err, lock.Close())
	}
	t.opts.State.Created(path, localstate.File{Piece: tablePiece})
	t.file.raw = mem.raw
	t.resume(mem)
	return nil
}

// openFile maps the table at path. It creates another one if there is none, if it is damaged, or if it has
// another size or other counters.
func (t *Table) openFile(path string, g geometry) (*memory, error) {
	raw, err := mapExisting(path)
	if errors.Is(err, localstate.ErrNotFile) || errors.Is(err, fs.ErrPermission) {
		err = t.putAside(path, nil, err)
	}
	if err != nil {
		return nil, err
	}
	var old *memory
	if raw != nil {
		if old, err = readTable(raw); err != nil {
			if err := t.putAside(path, raw, err); err != nil {
				return nil, err
			}
		}
	}
	if old != nil && !old.translated && len(old.entries) == g.entries && len(old.pages) == g.pages {
		return old, nil
	}
	if err := os.RemoveAll(path + newSuffix); err != nil { // of a process that was killed
		return nil, err
	}
	created, err := mapNew(path+newSuffix, g.bytes())
	if err != nil {
		return nil, err
	}
	mem := g.format(created, t.opts.Redaction)
	if old != nil {
		t.move(mem, old)
		err = errors.Join(old.drop(), unix.Munmap(raw))
	}
	if err = errors.Join(err, os.Rename(path+newSuffix, path)); err != nil {
		return nil, errors.Join(err, unix.Munmap(created))
	}
	return mem, nil
}

// putAside sets aside a file that is not a table.
func (t *Table) putAside(path string, raw []byte, why error) error {
	if len(raw) > 0 {
		if err := unix.Munmap(raw); err != nil {
			return err
		}
	}
	aside, ok := t.opts.State.SetAside(path, tablePiece, why)
	if !ok {
		return fmt.Errorf("set aside %s: %w", path, why)
	}
	t.setAside = aside
	return nil
}

// resume continues with the table in mem.
func (t *Table) resume(mem *memory) {
	t.mem = mem
	for i := range mem.entries {
		e := &mem.entries[i]
		e.gate.Store(mem.stateOf(e))
		e.changed.Store(1)
		e.fresh.Store(1)
		e.textless.Store(0)
		mem.repair(e)
		switch e.state() {
		case 0:
			if i > 0 {
				t.unused = append(t.unused, uint32(i))
			}
		case gateLive:
			if i > 0 {
				t.live++
			}
			for s := range e.slow {
				if e.slow[s].text.page != 0 {
					t.slowTexts++
				}
			}
		}
	}
	slices.Reverse(t.unused) // the first is taken first
	erase := t.redact()
	pages, err := mem.owned()
	if err != nil {
		panic("BUG: stmtstats: a table that was read cannot be read again: " + err.Error())
	}
	t.pages.fill(pages)
	if erase {
		t.eraseFree()
	}
	for i := 1; i < len(mem.entries); i++ {
		if e := &mem.entries[i]; e.state() != 0 {
			t.longPages += longPages(int(e.text.bytes))
		}
		if e := &mem.entries[i]; e.state() == gateLive && e.text.page == 0 && t.opts.Redaction != querylog.RedactAll {
			e.textless.Store(1)
		}
	}
	t.reindex()
	t.verify()
}

// repair drops values that a kill has left partly written.
func (m *memory) repair(e *entry) {
	if !m.isText(&e.text, MostText) {
		e.text = textRef{}
	}
	for i := range e.slow {
		s := &e.slow[i]
		if s.sum != s.checksum() {
			*s = slowRef{}
		} else if !m.isText(&s.text, pageText) {
			s.text = textRef{}
		}
	}
	e.floor.Store(0)
}

// redact drops the texts that a stricter redaction than before forbids. erase reports that the pages they
// were written to must be overwritten.
func (t *Table) redact() (erase bool) {
	h := t.mem.header
	before := querylog.Redaction(h.redaction.Load())
	erase = t.opts.Redaction > before
	h.redaction.Store(uint64(t.opts.Redaction))
	if !erase {
		return false
	}
	for i := range t.mem.entries {
		e := &t.mem.entries[i]
		if t.opts.Redaction == querylog.RedactAll {
			e.text = textRef{}
		}
		for s := range e.slow {
			e.slow[s].text = textRef{}
		}
		t.slowTexts = 0
	}
	return true
}

// eraseFree overwrites the pages without an owner.
func (t *Table) eraseFree() {
	for _, n := range t.pages.numbers {
		t.mem.pages[n].clear()
	}
}
