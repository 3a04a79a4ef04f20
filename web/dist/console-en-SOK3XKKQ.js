import{a as p,c as m,va as o}from"./chunk-32WKLSIO.js";m(p(o,null),document.getElementById("app"));
