package apitype

// DrainRequest takes a cluster out.
type DrainRequest struct {
	Services []string `json:"services,omitempty" doc:"only these services; empty: all"`
	For      string   `json:"for,omitempty" doc:"a duration such as 2h; empty: until undrained"`
	Reason   string   `json:"reason" doc:"why, for the post-mortem"`
	DryRun   bool     `json:"dry_run,omitempty" doc:"same checks and impact, nothing written"`
}

// UndrainRequest brings a cluster back.
type UndrainRequest struct {
	Reason string `json:"reason,omitempty"`
	DryRun bool   `json:"dry_run,omitempty"`
}

// FreezeRequest stops automation, or with DELETE lets it go on.
type FreezeRequest struct {
	Service string `json:"service,omitempty" doc:"empty: all"`
	For     string `json:"for,omitempty" doc:"a duration such as 2h; empty: until thawed"`
	Reason  string `json:"reason" doc:"why, for the post-mortem"`
	DryRun  bool   `json:"dry_run,omitempty"`
}

// ThawRequest lets automation go on, or names the active side of a service that a
// recovery left unconfirmed.
type ThawRequest struct {
	Service string `json:"service,omitempty" doc:"empty: all"`
	Active  string `json:"active,omitempty" doc:"the cluster that is the active side; needs a service and a reason"`
	Reason  string `json:"reason,omitempty"`
	DryRun  bool   `json:"dry_run,omitempty"`
}

// PlanRequest asks what a spec would change.
type PlanRequest struct {
	Source string `json:"source" doc:"spec.yaml, the whole text"`
	Name   string `json:"name,omitempty" doc:"file name used in positions"`
}

// ApplyRequest applies a plan. Source may be left out on the node that made the plan.
type ApplyRequest struct {
	Source string `json:"source,omitempty" doc:"spec.yaml, the same text the plan was made from"`
	Name   string `json:"name,omitempty" doc:"file name used in positions"`
	Reason string `json:"reason,omitempty"`
	Force  bool   `json:"force,omitempty" doc:"lifts the guard rails that allow it"`
}

// RollbackRequest makes an older revision's spec the next revision.
type RollbackRequest struct {
	Revision uint64 `json:"revision"`
	Reason   string `json:"reason,omitempty"`
	Force    bool   `json:"force,omitempty"`
	DryRun   bool   `json:"dry_run,omitempty"`
}

// TokenRequest makes a bearer token.
type TokenRequest struct {
	User    string   `json:"user" doc:"whose acts it makes"`
	Groups  []string `json:"groups,omitempty" doc:"matched against roles"`
	For     string   `json:"for,omitempty" doc:"lifetime such as 720h; empty: never ends"`
	Sources []string `json:"sources,omitempty" doc:"networks it may be used from; empty: any"`
}

// JoinTokenRequest makes a join token.
type JoinTokenRequest struct {
	Role string `json:"role,omitempty" enum:"voter,nonvoter" doc:"the most the joining node may be; voter when empty"`
	For  string `json:"for,omitempty" doc:"lifetime; 1h when empty"`
}

// RemoveRequest is why a member goes.
type RemoveRequest struct {
	Reason string `json:"reason,omitempty"`
}

// RollCARequest is why the mesh CA is rolled.
type RollCARequest struct {
	Reason string `json:"reason,omitempty"`
}
