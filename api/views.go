package api

import "time"

// Views lists the saved views of a workspace.
type Views struct {
	Views []View `json:"views" doc:"By name."`
}

// View is a saved view of statistics.
type View struct {
	ID        int64     `json:"id"`
	Name      string    `json:"name"`
	Query     string    `json:"query" doc:"Filters, as the console has them in its address; of a public view, days and tz."`
	Public    bool      `json:"public"`
	Domain    string    `json:"domain" doc:"Host of the domain of a public view's link; empty for the shared default domain, and of other views."`
	ShortCode string    `json:"short_code" doc:"Of a public view's link; empty of other views."`
	Tag       string    `json:"tag" doc:"Of a public view of the links with a tag; empty of other views."`
	Path      string    `json:"path,omitzero" example:"/api/v1/public/SECRET" doc:"Of a public view: path of its page under the address of the API. It is shown once, when the view is made, because Waypost keeps a hash alone."`
	CreatedAt time.Time `json:"created_at"`
}

// NewView is a request for a view: either saved filters, or a public page.
type NewView struct {
	Name      string `json:"name" minLength:"1" maxLength:"100" doc:"Unique in the workspace. Readers of a public view see it as the title."`
	Query     string `json:"query,omitzero" maxLength:"2000" example:"span=7d&by=countries&name=DE" doc:"Filters to save, as the console has them in its address."`
	Public    bool   `json:"public,omitzero" doc:"Make a page of clicks that everyone can read who has its address."`
	Domain    string `json:"domain,omitzero" maxLength:"253" doc:"Of a public view: host of the link's domain. Default: the shared default domain."`
	ShortCode string `json:"short_code,omitzero" maxLength:"400" doc:"Of a public view: the link."`
	Tag       string `json:"tag,omitzero" maxLength:"600" doc:"Of a public view: instead of a link, the links that have this tag when the page is read."`
	Days      int    `json:"days,omitzero" minimum:"1" maximum:"366" doc:"Of a public view: the last days, which it shows. Default: 30."`
	TZ        string `json:"tz,omitzero" maxLength:"64" example:"Europe/Berlin" doc:"Of a public view: the time zone of its days. Default: UTC."`
}

// ViewChange is a change of a view.
type ViewChange struct {
	Name string `json:"name" minLength:"1" maxLength:"100"`
}
