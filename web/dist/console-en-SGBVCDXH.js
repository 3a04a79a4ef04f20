import{a as p,c as m,qa as o}from"./chunk-WPMBRRUE.js";m(p(o,null),document.getElementById("app"));
