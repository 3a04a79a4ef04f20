import{a as p,c as m,va as o}from"./chunk-GHMCTTGU.js";m(p(o,null),document.getElementById("app"));
