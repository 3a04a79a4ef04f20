import{a as p,c as m,va as o}from"./chunk-JOBJ2M7E.js";m(p(o,null),document.getElementById("app"));
