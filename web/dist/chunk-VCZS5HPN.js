function o(e,r,t){let n=document.createElement("a");n.href=URL.createObjectURL(new Blob([t],{type:r})),n.download=e,n.click(),setTimeout(()=>URL.revokeObjectURL(n.href),6e4)}function c(e){let r=t=>{let n=typeof t=="string"&&/^[=+\-@\t\r]/.test(t)?`'${t}`:String(t);return/[",\r\n]/.test(n)?`"${n.replaceAll('"','""')}"`:n};return e.map(t=>`${t.map(r).join(",")}\r
`).join("")}export{o as a,c as b};
