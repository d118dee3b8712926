package promapi

// Hooks of the external tests.

type GateStats = gateStats

func (a *API) Stats() GateStats { return a.stats() }
