import{a as p,c as m,va as o}from"./chunk-N554HOKV.js";m(p(o,null),document.getElementById("app"));
