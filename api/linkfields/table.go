package linkfields

import (
	"waypost"
	"waypost/api"
)

// Fields is the table, in the order of the columns of an export. Besides these a link has
// fields that only the API knows, such as updated_at.
var Fields = []Field{
	{
		Name: "short_code",
		Link: func(l *api.Link) any { return &l.ShortCode },
	},
	{
		Name:   "original_url",
		New:    func(n *api.NewLink) any { return &n.OriginalURL },
		Change: func(c *api.LinkChange) any { return &c.OriginalURL },
		Link:   func(l *api.Link) any { return &l.OriginalURL },
	},
	{
		Name: "custom_code",
		New:  func(n *api.NewLink) any { return &n.CustomCode },
	},
	{
		Name:   "title",
		New:    func(n *api.NewLink) any { return &n.Title },
		Change: func(c *api.LinkChange) any { return &c.Title },
		Link:   func(l *api.Link) any { return &l.Title },
		Detail: func(d *waypost.Details) any { return &d.Title },
		Flag:   "title", Usage: "title, for people", Changing: `; "" for none`,
	},
	{
		Name:   "description",
		New:    func(n *api.NewLink) any { return &n.Description },
		Change: func(c *api.LinkChange) any { return &c.Description },
		Link:   func(l *api.Link) any { return &l.Description },
		Detail: func(d *waypost.Details) any { return &d.Description },
		Flag:   "description", Usage: "description, for people", Changing: `; "" for none`,
		Long: true,
	},
	{
		Name:   "notes",
		New:    func(n *api.NewLink) any { return &n.Notes },
		Change: func(c *api.LinkChange) any { return &c.Notes },
		Link:   func(l *api.Link) any { return &l.Notes },
		Detail: func(d *waypost.Details) any { return &d.Notes },
		Flag:   "notes", Usage: "notes of the team, which visitors never see", Changing: `; "" for none`,
		Long: true,
	},
	{
		Name:   "tags",
		New:    func(n *api.NewLink) any { return &n.Tags },
		Change: func(c *api.LinkChange) any { return &c.Tags },
		Link:   func(l *api.Link) any { return &l.Tags },
		Detail: func(d *waypost.Details) any { return &d.Tags },
		Flag:   "tag", Usage: "tag; may be given several times", Changing: "; in the place of those that are there",
	},
	{
		Name:   "redirect_status",
		New:    func(n *api.NewLink) any { return &n.RedirectStatus },
		Change: func(c *api.LinkChange) any { return &c.RedirectStatus },
		Link:   func(l *api.Link) any { return &l.RedirectStatus },
		Flag:   "status", Usage: "status of the redirect: 301, 302, 307 or 308; a new link has 302 without it",
	},
	{
		Name:   "forward_query",
		New:    func(n *api.NewLink) any { return &n.ForwardQuery },
		Change: func(c *api.LinkChange) any { return &c.ForwardQuery },
		Link:   func(l *api.Link) any { return &l.ForwardQuery },
		Flag:   "forward-query", Usage: "add the query that a visitor brings to the target's", Changing: ", or --forward-query=false",
	},
	{
		Name:   "forward_path",
		New:    func(n *api.NewLink) any { return &n.ForwardPath },
		Change: func(c *api.LinkChange) any { return &c.ForwardPath },
		Link:   func(l *api.Link) any { return &l.ForwardPath },
		Flag:   "forward-path", Usage: "add what follows the code in the path to the target's", Changing: ", or --forward-path=false",
	},
	{
		Name:   "expires_at",
		New:    func(n *api.NewLink) any { return &n.ExpiresAt },
		Change: func(c *api.LinkChange) any { return &c.ExpiresAt },
		Link:   func(l *api.Link) any { return &l.ExpiresAt },
	},
	{
		Name: "click_count",
		Link: func(l *api.Link) any { return &l.ClickCount },
	},
	{
		Name: "created_at",
		Link: func(l *api.Link) any { return &l.CreatedAt },
	},
	{
		Name: "domain",
		New:  func(n *api.NewLink) any { return &n.Domain },
		Link: func(l *api.Link) any { return &l.Domain },
	},
	{
		Name:   "active",
		New:    func(n *api.NewLink) any { return &n.Active },
		Change: func(c *api.LinkChange) any { return &c.Active },
		Link:   func(l *api.Link) any { return &l.Active },
	},
	{
		Name:   "metadata",
		New:    func(n *api.NewLink) any { return &n.Metadata },
		Change: func(c *api.LinkChange) any { return &c.Metadata },
		Link:   func(l *api.Link) any { return &l.Metadata },
		Detail: func(d *waypost.Details) any { return &d.Metadata },
	},
	{
		Name:   "valid_from",
		New:    func(n *api.NewLink) any { return &n.ValidFrom },
		Change: func(c *api.LinkChange) any { return &c.ValidFrom },
		Link:   func(l *api.Link) any { return &l.ValidFrom },
	},
	{
		Name:   "expired_url",
		New:    func(n *api.NewLink) any { return &n.ExpiredURL },
		Change: func(c *api.LinkChange) any { return &c.ExpiredURL },
		Link:   func(l *api.Link) any { return &l.ExpiredURL },
	},
	{
		Name:   "rules",
		New:    func(n *api.NewLink) any { return &n.Rules },
		Change: func(c *api.LinkChange) any { return &c.Rules },
		Link:   func(l *api.Link) any { return &l.Rules },
	},
	{
		Name:   "max_clicks",
		New:    func(n *api.NewLink) any { return &n.MaxClicks },
		Change: func(c *api.LinkChange) any { return &c.MaxClicks },
		Link:   func(l *api.Link) any { return &l.MaxClicks },
		Flag:   "max-clicks", Usage: "how often visitors are led to the target, in all", Changing: ", with the clicks that there are already",
		Optional: true,
	},
	{
		Name:   "max_clicks_mode",
		New:    func(n *api.NewLink) any { return &n.MaxClicksMode },
		Change: func(c *api.LinkChange) any { return &c.MaxClicksMode },
		Link:   func(l *api.Link) any { return &l.MaxClicksMode },
		Flag:   "max-clicks-mode", Usage: "how strictly: exact or eventual; a new link is eventual without it",
	},
	{
		Name:   "exhausted_url",
		New:    func(n *api.NewLink) any { return &n.ExhaustedURL },
		Change: func(c *api.LinkChange) any { return &c.ExhaustedURL },
		Link:   func(l *api.Link) any { return &l.ExhaustedURL },
		Flag:   "exhausted-url", Usage: "where visitors are led once --max-clicks is used up", Changing: `; "" for none`,
	},
	{
		Name:   "confirm",
		New:    func(n *api.NewLink) any { return &n.Confirm },
		Change: func(c *api.LinkChange) any { return &c.Confirm },
		Link:   func(l *api.Link) any { return &l.Confirm },
		Flag:   "confirm", Usage: "ask visitors to press a button first, so that software is no click", Changing: ", or --confirm=false",
	},
	{
		Name:   "password",
		New:    func(n *api.NewLink) any { return &n.Password },
		Change: func(c *api.LinkChange) any { return &c.Password },
	},
	{
		Name: "aliases",
		Link: func(l *api.Link) any { return &l.Aliases },
	},
	{
		Name: "has_password",
		Link: func(l *api.Link) any { return &l.HasPassword },
	},
}
