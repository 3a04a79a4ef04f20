import{a as p,c as m,ia as o}from"./chunk-RSPKOPXY.js";m(p(o,null),document.getElementById("app"));
