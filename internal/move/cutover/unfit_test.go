package cutover

import (
	"errors"
	"testing"

	"github.com/taredb/tare/internal/mysql/session"
	"github.com/taredb/tare/internal/testrows"
	"github.com/taredb/tare/internal/testwait"
)

// TestUnfitServers has an XA transaction at the source that is prepared before the copy starts and has no session any more, and then a target that is
// read-only: clients stay at the source, which stays writable.
func TestUnfitServers(t *testing.T) {
	s := newSides(t)
	s.exec("CREATE TABLE src.other (id INT PRIMARY KEY)")
	client, err := session.Connect(t.Context(), s.direct)
	s.must(err)
	testrows.Exec(t, client, "XA START 'x'", "INSERT INTO src.other VALUES (1)", "XA END 'x'", "XA PREPARE 'x'")
	s.must(client.Close())
	k := &cut{copied: s.copy("dst")}
	k.g = newModelGateway(t, s.source.Addr(), s.through.Addr)
	h := &handed{sides: s, parts: []*copied{s.copy("dst1"), s.copy("dst2")}}
	o := k.options()
	o.MaxPause, o.Tries = testwait.Limit/4, 1
	s.must(o.Validate())
	_, err = k.runWith(o, k.of())
	if _, address, paused := k.g.now(); !errors.Is(err, errPrepared) || address != k.g.from || paused || k.phase() != phaseNone {
		t.Errorf("a cutover: %v, clients at %s, paused %t, record %q", err, address, paused, k.phase())
	}
	err = h.run(h.new(s.direct), s.direct)
	if readOnly := s.column("SELECT @@GLOBAL.read_only")[0]; !errors.Is(err, errPrepared) || readOnly != "0" {
		t.Errorf("a handover: %v, read-only %s", err, readOnly)
	}
	s.exec("XA COMMIT 'x'")
	k.reset() // following would stop at the commit
	s.exec("SET GLOBAL read_only = 1")
	_, err = k.runWith(o, k.of())
	if _, address, paused := k.g.now(); !errors.Is(err, errReadOnly) || address != k.g.from || paused || k.phase() != phaseNone {
		t.Errorf("a cutover to a target that is read-only: %v, clients at %s, paused %t, record %q", err, address, paused, k.phase())
	}
	s.exec("SET GLOBAL read_only = 0")
	if report, err := k.runWith(o, k.of()); err != nil || report.Phase != string(phaseDone) {
		t.Errorf("after the commit: %v, %+v", err, report)
	}
}
